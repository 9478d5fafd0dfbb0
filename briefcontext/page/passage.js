// The passage: a document's text, with the quotes that were taken from it marked at their offsets.

import { byId, counted, el, isWebAddress, link, refill } from "./dom.js";

const NARROW = matchMedia("(max-width: 60rem)");
const MATCHES = {
  exact: "word for word",
  normalised: "the same letters and digits; other punctuation",
  fuzzy: "similar words: compare them",
  title: "in the title",
};
let opener = null;

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
  refill(byId("passage-body"), meta(doc), el("div", { class: "passage-text" }, marked(doc.text, quotes.filter((quote) => quote.start !== null), current)),
    quotes.length > 0 && quoteList(quotes));
  if (!dialog.open) {
    if (NARROW.matches) dialog.showModal();
    else dialog.show();
  }
  document.body.classList.add("passage-open");
  byId("passage-title").focus({ preventScroll: true });
  dialog.scrollTop = 0;
  dialog.querySelector("mark.current")?.scrollIntoView({ block: "nearest" });
}

function quoteList(quotes) {
  return el("p", { class: "hint" }, `${counted(quotes.length, "quote")}: `, quotes.map((quote, place) => [
    place > 0 && "; ", quote.start === null ? "in the title" : `characters ${quote.start}–${quote.end}, ${matchWords(quote)}`,
  ]));
}

/** What is known of a document, as a line of tags. */
export function meta(doc) {
  const types = doc.study_type ? [doc.study_type, ...doc.species, doc.journal].filter(Boolean) : doc.publication_types ? String(doc.publication_types).split(/[;,]\s*/) : [];
  return el("p", { class: "meta" },
    doc.retracted && el("strong", { class: "tag bad" }, "RETRACTED"),
    doc.expression_of_concern && el("strong", { class: "tag bad" }, "EXPRESSION OF CONCERN"),
    doc.corrected && el("span", { class: "tag" }, "corrected"),
    types.map((type) => el("span", { class: "tag" }, type)),
    doc.year && el("span", { class: "tag" }, doc.year),
    el("span", { class: "source-id" }, doc.source_id),
    isWebAddress(doc.url) && link(doc.url, place(doc.url)));
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
