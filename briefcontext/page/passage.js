// The passage: a document's text, with the quotes that were taken from it marked at their offsets.

import { byId, counted, el, isWebAddress, link, refill } from "./dom.js";

const NARROW = matchMedia("(max-width: 60rem)");
const MATCHES = {
  exact: "word for word",
  normalised: "the same letters and digits; other punctuation",
  fuzzy: "similar words: compare them",
  title: "in the title",
};
const ALARMS = ["RETRACTED", "EXPRESSION OF CONCERN"];
const BEGINNING = 60;
let opener = null;
let source = null;

/** Say how a whole source is fetched, by its id; where it cannot be, passages are shown alone. */
export function useSources(fetched) {
  source = fetched;
}

export function prepare() {
  const dialog = byId("passage");
  byId("close-passage").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    document.body.classList.remove("passage-open");
    if (opener?.isConnected) opener.focus();
    opener = null;
  });
  // A dialog beside the answer is not modal, and only modal ones close by themselves.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && dialog.open && !dialog.matches(":modal")) dialog.close();
  });
}

export function close() {
  opener = null;
  byId("passage").close();
}

/** Show a document; `quotes` are marked, and the view goes to `current`. */
export function open(doc, quotes = [], current = quotes[0]) {
  const dialog = byId("passage");
  if (!dialog.contains(document.activeElement)) opener = document.activeElement;
  refill(byId("passage-title"), marked(doc.title || doc.source_id, inTitle(doc, quotes), current));
  const [before, after, whole] = [el("div", { class: "context" }), el("div", { class: "context" }), el("div")];
  refill(byId("passage-body"), doc.authors && el("p", { class: "hint" }, authors(doc.authors.split("; "))), meta(doc), before,
    el("p", { class: "where" }, where(current?.match && current.match !== "title" ? current : doc)),
    el("div", { class: "passage-text" }, marked(doc.text, quotes.filter((quote) => quote.start !== null), current)),
    after, whole, quotes.length > 0 && quoteList(quotes));
  if (source && doc.id !== doc.source_id) surround(doc, before, after, whole);
  if (!dialog.open) {
    if (NARROW.matches) dialog.showModal();
    else dialog.show();
  }
  document.body.classList.add("passage-open");
  byId("passage-title").focus({ preventScroll: true });
  dialog.scrollTop = 0;
  dialog.querySelector("mark.current")?.scrollIntoView({ block: "nearest" });
}

/** Show the text before and after a passage, and on a click the whole source. */
async function surround(doc, before, after, whole) {
  const { passages, left_out: left } = await source(doc.source_id).catch(() => ({ passages: [] }));
  const at = passages.findIndex((passage) => passage.id === doc.id);
  if (passages.length < 2 || at < 0) return;
  const show = (from, to) => {
    refill(before, passages.slice(from, at).map((passage) => passage.text).join(""));
    refill(after, passages.slice(at + 1, to).map((passage) => passage.text).join(""));
    byId("passage").querySelector("mark.current")?.scrollIntoView({ block: "nearest" });
  };
  show(Math.max(at - 1, 0), at + 2);
  if (passages.length <= 3 && at === 1) return;
  const click = () => {
    show(0, passages.length);
    refill(whole, left > 0 && el("p", { class: "hint" }, `${counted(left, "passage")} at the end are left out.`));
  };
  refill(whole, el("button", { type: "button", class: "whole", click }, "Show the whole source"));
}

/** Return a place in words; empty if unknown. */
export function where({ section, paragraph, page }) {
  return [section, paragraph && `paragraph ${paragraph}`, page && `page ${page}`].filter(Boolean).join(", ");
}

/** Return the place and the first words of a passage. */
export function beginning(doc) {
  const text = doc.text.trim().replace(/^#+\s*/, "");
  const words = text.slice(text.startsWith(doc.section) ? doc.section.length : 0).trim().replace(/\s+/g, " ");
  const place = doc.section === doc.title ? "" : where(doc);
  if (!words) return place || "title";
  const cut = words.length > BEGINNING ? `${words.slice(0, BEGINNING).trimEnd()}…` : words;
  return [place, `“${cut}”`].filter(Boolean).join(": ");
}

function quoteList(quotes) {
  const words = quotes.map((quote) => [quote.start === null ? "" : where(quote), matchWords(quote)].filter(Boolean).join(", "));
  return el("p", { class: "hint" }, `${counted(quotes.length, "quote")}: ${[...new Set(words)].join("; ")}`);
}

/** Write `Smith, JA` and others as `Smith JA, Doe B`; of more than `most`, the first. */
export function authors(names, most = Infinity) {
  const written = names.slice(0, most).map((name) => name.replace(",", "")).join(", ");
  return names.length > most ? `${written}, et al.` : written;
}

/** What is known of a document, as a line of tags. */
export function meta(doc) {
  return el("p", { class: "meta" },
    [...doc.notes, doc.journal, doc.year].filter(Boolean).map((note) =>
      el("span", { class: `tag ${ALARMS.includes(note) ? "bad" : ""}` }, note)),
    el("span", { class: "source-id" }, identifier(doc)),
    isWebAddress(doc.url) && link(doc.url, place(doc.url)));
}

function identifier({ source_id: id, url }) {
  return /^\d+$/.test(id) && /pubmed/.test(url ?? "") ? `PMID ${id}` : id;
}

function place(address) {
  return /^https?:\/\/(?:pubmed|www)\.ncbi\.nlm\.nih\.gov\//.test(address) ? "Open in PubMed" : "Open the source";
}

export function matchWords(quote) {
  return MATCHES[quote.match] ?? quote.match;
}

// A quote of the title has no offsets: those are for the text.
function inTitle(doc, quotes) {
  return quotes.filter((quote) => quote.start === null && doc.title?.includes(quote.text)).map((quote) => {
    const start = Array.from(doc.title.slice(0, doc.title.indexOf(quote.text))).length;
    return { start, end: start + Array.from(quote.text).length };
  });
}

// Offsets count characters as Python does, one for an emoji, where a JavaScript string has two.
function marked(text, quotes, current) {
  const characters = Array.from(text);
  const piece = (start, end) => characters.slice(start, end).join("");
  const ordered = [...quotes].sort((a, b) => a.start - b.start || b.end - a.end);
  const parts = [];
  let at = 0;
  for (const quote of ordered) {
    const start = Math.max(at, quote.start);
    if (quote.end <= start) continue;
    parts.push(piece(at, start), el("mark", { class: quote === current && "current" }, piece(start, quote.end)));
    at = quote.end;
  }
  return [...parts, piece(at, characters.length)];
}
