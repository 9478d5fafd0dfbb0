// Making elements. Text only ever becomes text: nothing here, or on this page, parses markup.

// Characters that turn the direction of what follows could make a text look like another; shown as a sign instead.
// One for one, so that offsets stay true.
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

export function shown(text) {
  return String(text ?? "").replace(TURNING, "\ufffd");
}

/** Make an element: `el("p", { class: "hint" }, "text", other)`. Properties that are functions listen to events. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  fill(element, children);
  return element;
}

function fill(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : shown(child));
  }
}

export function refill(element, ...children) {
  element.replaceChildren();
  fill(element, children);
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Link to a page of the web; anything else, a script for one, stays text. */
export function link(address, words) {
  if (!isWebAddress(address)) return el("span", {}, words);
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, words,
    el("span", { class: "unseen" }, " (opens in a new tab)"));
}

export function isWebAddress(address) {
  try {
    return ["http:", "https:"].includes(new URL(address).protocol);
  } catch {
    return false;
  }
}

/** Begin with a capital. */
export function sentence(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Say how many articles and passages an answer cites. */
export function countedReferences({ references, citations }) {
  const articles = counted(references.length, "article");
  return references.length === citations.length ? articles : `${articles}, ${counted(citations.length, "passage")}`;
}

export function counted(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
