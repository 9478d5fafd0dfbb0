// The answer: its text with citations, its notes, and its references.

import { byId, counted, countedReferences, el, refill, shown } from "./dom.js";
import { authors, matchWords, meta, open, where } from "./passage.js";

export const NO_ANSWER = "No answer was found in the documents.";
const ENDINGS = { ris: "ris", bibtex: "bib", nlm: "txt" };
const LABELS = { ris: "RIS", bibtex: "BibTeX", nlm: "text (NLM)" };
const LEVELS = ["danger", "caution", "info"];
const TONES = { danger: "bad", caution: "warn", info: "good" };
const SIGNS = { danger: "✗", caution: "!", info: "✓" };
/** Characters of a sentence that a line repeats. */
const SENTENCE = 80;
const FILTERED = "Filters: ";
const NOTICE = "Not medical advice: check every statement against its source.";

export function showWaiting() {
  refill(byId("answer-body"), el("div", { class: "skeleton", "aria-hidden": "true" },
    el("span"), el("span"), el("span"), el("span")));
}

export function showNone() {
  refill(byId("answer-body"), el("p", { class: "hint" }, "No answer was given."));
}

/** Show the words of an answer that is still being written. */
export function showDraft(text, stage = "Being written; citations are checked at the end.") {
  refill(byId("answer-body"), el("div", { class: "text draft" }, text), el("p", { class: "hint" }, stage));
}

/** Show an answer. `run` has the question, the documents by id, and what the server is. */
export function showAnswer(answer, run) {
  const documents = run.documents;
  const filters = answer.provenance?.searched.filters;
  refill(byId("answer-body"),
    notes("Check", "checks", answer, "danger", "caution"),
    answer.abstained && el("p", { class: "notice abstained" },
      el("strong", {}, NO_ANSWER)),
    answer.choice && el("p", { class: "choice" }, el("span", { class: "letter" }, answer.choice),
      el("span", {}, run.asked.options[answer.choice] ?? "")),
    filters && !answer.abstained && el("p", { class: "hint filtered" }, FILTERED, filters),
    el("div", { class: "text" }, text(answer, documents)),
    answer.abstained && documents.size > 0 && el("div", { class: "actions" },
      el("button", { type: "button", class: "found", click: showPassages }, "Read the passages")),
    conflict(answer),
    notes("Notes", "notes", answer, "info"),
    answer.evidence.summary && el("p", { class: "evidence" }, el("strong", {}, "Summary of evidence: "), answer.evidence.summary),
    references(answer, documents),
    el("p", { class: "notice-line" }, NOTICE),
    actions(answer, run),
    usage(answer));
}

/** Go to the passages that were found. */
function showPassages() {
  for (const fold of [byId("path-fold"), byId("step-retrieve").querySelector("details")]) fold.open = true;
  byId("step-retrieve").querySelector(".document").focus();
}

function text(answer, documents) {
  const blocks = [];
  let start = 0;
  for (const line of answer.text.split("\n")) {
    const end = start + Array.from(line).length;
    const words = sentences(line, start, answer, documents);
    start = end + 1;
    if (!line.trim()) continue;
    if (!/^\s*[-*•]\s/.test(line)) blocks.push(el("p", {}, words));
    else {
      if (blocks.at(-1)?.tagName !== "UL") blocks.push(el("ul"));
      blocks.at(-1).append(el("li", {}, words));
    }
  }
  return blocks;
}

// Offsets count characters as Python does, one for an emoji, where a JavaScript string has two.
function sentences(line, start, answer, documents) {
  const characters = Array.from(line);
  const bullet = /^\s*[-*•]\s+/.exec(line)?.[0].length ?? 0;
  const piece = (from, to) => inline(characters.slice(Math.max(from, bullet), to).join(""), answer, documents);
  const parts = [];
  let at = 0;
  for (const [end, listed] of placed(answer)) {
    const [from, to] = [listed[0].start - start, end - start];
    if (from < at || from >= characters.length) continue;
    const worst = LEVELS.find((level) => listed.some((note) => note.level === level));
    parts.push(piece(at, from), el("span", { class: `sentence ${worst}` }, piece(from, to)), " ", sign(listed, worst));
    at = to;
  }
  return [...parts, piece(at, characters.length)];
}

/** Group the notes on sentences by their ends, in the order of the text. */
function placed(answer) {
  const groups = new Map();
  for (const note of answer.notes.filter((note) => "end" in note).toSorted((one, other) => one.end - other.end)) {
    groups.set(note.end, [...(groups.get(note.end) ?? []), note]);
  }
  return groups;
}

/** Make the sign of a sentence with its verdicts, which opens the notes. */
function sign(listed, worst) {
  const words = el("span", { class: `verdict notice ${TONES[worst]}`, role: "note", hidden: true },
    listed.map((note) => el("span", {}, note.message)));
  const kinds = listed.map((note) => note.kind.replaceAll("_", " ")).join(", ");
  const click = () => {
    words.hidden = !words.hidden;
    button.setAttribute("aria-expanded", String(!words.hidden));
  };
  const button = el("button", { type: "button", class: `sign ${worst}`, "aria-label": `Note on this sentence: ${kinds}`,
    "aria-expanded": "false", click }, `${SIGNS[worst]} ${kinds}`);
  return [button, words];
}

/** Count the lines of dangers and cautions. */
export function countChecks(answer) {
  return lines(answer, "danger").length + lines(answer, "caution").length;
}

/** Write the notes of a level as lines. Those on one sentence are one line of the most serious level. */
function lines(answer, level) {
  const characters = Array.from(answer.text);
  const groups = Map.groupBy(answer.notes.filter(({ kind }) => kind !== "supported"), (note) =>
    "start" in note ? `${note.start}-${note.end}` : note);
  return [...groups.values()].filter(([worst]) => worst.level === level).map((group) => {
    const message = group.map((note) => note.message).join(" ");
    if (!("start" in group[0])) return message;
    const words = characters.slice(group[0].start, group[0].end).join("").replace(/\s+/g, " ");
    return `“${words.length > SENTENCE ? `${words.slice(0, SENTENCE - 1).trimEnd()}…` : words}” ${message}`;
  });
}

function inline(line, answer, documents) {
  const citations = new Map(answer.citations.map((citation) => [citation.key, citation]));
  // A full stop stays on the line of its citation.
  return line.split(/(\*\*[^*]+\*\*|\[\d+[a-z]*\][.,;:]?)/).map((part) => {
    const [, number, stop] = /^\[(\d+[a-z]*)\](.?)$/.exec(part) ?? [];
    if (citations.has(number)) return el("span", { class: "cited" }, mark(citations.get(number), documents), stop);
    return /^\*\*[^*]+\*\*$/.test(part) ? el("strong", {}, inline(part.slice(2, -2), answer, documents)) : part;
  });
}

function mark(citation, documents) {
  const click = () => openCitation(citation, documents);
  const bare = citation.quotes.length === 0 ? ", without a quote" : "";
  const retracted = citation.retracted ? ", retracted" : "";
  const label = `Citation ${citation.key}: ${shown(citation.title || citation.source_id)}${bare}${retracted}`;
  const kind = `cite${bare && " bare"}${retracted && " retracted"}`;
  return el("button", { type: "button", class: kind, "aria-label": label, "aria-haspopup": "dialog", title: citation.title, click },
    `[${citation.key}]`);
}

function openCitation(citation, documents, quote = citation.quotes[0]) {
  open({ ...documents.get(citation.document_id), ...citation }, citation.quotes, quote);
}

function conflict(answer) {
  if (!answer.conflict) return null;
  const { choices, statement, settled } = answer.conflict;
  return el("section", { class: "notice warn conflict", "aria-label": "Conflict" },
    el("h4", {}, "The evidence contradicts itself"),
    statement && el("p", {}, statement),
    Object.keys(choices).length > 0 && el("ul", {}, Object.entries(choices).map(([letter, places]) =>
      el("li", {}, `${letter}: chosen in partition${places.length > 1 ? "s" : ""} `,
        places.map((place) => place + 1).join(", ")))),
    settled && el("p", {}, `The answer settles on ${settled}.`));
}

function notes(heading, kind, answer, ...levels) {
  const items = levels.map((level) => lines(answer, level).map((line) => el("li", { class: level }, line))).flat();
  if (items.length === 0) return null;
  const worst = LEVELS.find((level) => items.some((item) => item.classList.contains(level)));
  return el("section", { class: `notice ${TONES[worst]} ${kind}`, "aria-label": heading },
    el("h4", {}, heading), el("ul", {}, items));
}

function references(answer, documents) {
  if (answer.citations.length === 0) return null;
  return el("section", { class: "references", "aria-labelledby": "references-heading" },
    el("h4", { id: "references-heading" }, "References", el("span", { class: "hint" }, ` ${countedReferences(answer)}`)),
    el("ol", {}, answer.references.map((article) => reference(article, passages(article, answer), documents))));
}

function passages(article, answer) {
  return answer.citations.filter((citation) => article.keys.includes(citation.key));
}

function reference(article, cited, documents) {
  const [first] = cited;
  const click = () => openCitation(first, documents);
  return el("li", { class: "reference" },
    el("span", { class: "number", "aria-hidden": "true" }, `[${article.number}]`),
    el("div", {},
      el("button", { type: "button", class: "title", click }, article.title || article.source_id),
      article.authors.length > 0 && el("p", { class: "hint" }, authors(article.authors, 3)),
      meta(first),
      cited.map((citation) => [
        // The title is shown above already.
        citation.quotes.filter((quote) => quote.match !== "title").map((quote) => el("blockquote", {},
          cited.length > 1 && el("span", { class: "number" }, `[${citation.key}] `),
          el("button", { type: "button", class: "quote", click: () => openCitation(citation, documents, quote) },
            `“${quote.text}”`),
          !quote.text.startsWith(`${quote.section}:`) && where(quote) && el("span", { class: "where" }, where(quote)),
          quote.match !== "exact" && el("span", { class: "tag warn" }, matchWords(quote)))),
        citation.quotes.length === 0 && el("p", {}, cited.length > 1 && `[${citation.key}] `,
          el("span", { class: "tag warn" }, "cited without a quote")),
        citation.quotes.some((quote) => quote.match === "title") && el("p", {}, el("span", { class: "tag" }, "title only")),
      ])));
}

function actions(answer, run) {
  const items = el("span", { class: "hint", role: "status" });
  const cites = answer.references.length > 0;
  const copy = async () => {
    const done = await toClipboard(plainText(run));
    items.textContent = done ? `Copied${cites ? ", with references" : ""}.` : "The browser did not let the page copy.";
  };
  return el("div", { class: "actions" },
    el("button", { type: "button", class: "copy", click: copy },
      cites ? "Copy with references" : "Copy"),
    el("button", { type: "button", class: "print", click: () => window.print() }, "Print"),
    cites && Object.entries(run.formats).map(([name, words]) => el("button",
      { type: "button", class: "save", click: () => save(words, ENDINGS[name] ?? "txt") }, `Save as ${LABELS[name] ?? name}`)), items);
}

/** Give a text to the browser as a file to save. */
function save(words, ending) {
  const address = URL.createObjectURL(new Blob([words], { type: "text/plain" }));
  el("a", { href: address, download: `references.${ending}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

async function toClipboard(words) {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    // Without TLS, and not on this machine, browsers only have the old way.
    const area = el("textarea", { class: "unseen", "aria-hidden": "true", tabindex: -1 });
    area.value = words;
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return done;
  }
}

/** Return the question, the answer as the server writes it, and its origin. */
export function plainText(run) {
  const options = Object.entries(run.asked.options).map(([letter, words]) => `${letter}. ${words}`);
  const question = [run.asked.question, ...options].join("\n");
  return shown([question, run.text, `BriefContext, ${run.about}, ${run.day}. ${NOTICE}`].join("\n\n"));
}

function usage(answer) {
  const { calls, failed_calls: failed, retries, cache_hits: cached, input_tokens: read, output_tokens: written, seconds,
    vanilla_input_tokens: vanilla } = answer.usage;
  const parts = [calls ? counted(calls, "model call") : "no model calls"];
  if (retries) parts.push(counted(retries, "retry", "retries"));
  if (failed) parts.push(`${failed} of them failed`);
  if (cached) parts.push(`${counted(cached, "reply", "replies")} from the cache`);
  if (read || written) parts.push(`${counted(read, "token")} in, ${written.toLocaleString("en")} out`);
  parts.push(`${seconds.toFixed(1)} s`);
  if (vanilla && answer.route === "map_reduce") {
    parts.push(`one call over all documents would have read about ${counted(vanilla, "token")}`);
  }
  return el("p", { class: "usage hint" }, `Used: ${parts.join(" · ")}`);
}
