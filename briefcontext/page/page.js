// The page: asks, and shows the server's events as they come.

import { NO_ANSWER, countChecks, showAnswer, showDraft, showNone, showWaiting } from "./answer.js";
import { Refused, about, ask, keepSource, keepToken, source, takeToken } from "./api.js";
import { byId, counted, countedReferences, el, refill, sentence, shown } from "./dom.js";
import * as form from "./form.js";
import * as kept from "./kept.js";
import * as passage from "./passage.js";
import { Path } from "./path.js";

const FAILURES = {
  InputError: "This cannot be asked as it is",
  KnowledgeBaseError: "The knowledge base cannot be used",
  MissingExtraError: "A package is missing on the server",
  ModelCallError: "The model did not answer",
  ModelSetupError: "The model cannot be used",
  Unreachable: "There is no connection",
};
let current = null;
let known = null;

function say(words) {
  byId("status").textContent = words;
}

function fail(kind, message) {
  refill(byId("failure"), el("div", { class: "notice bad" },
    el("h4", {}, FAILURES[kind] ?? "The question could not be answered"), el("p", {}, message),
    known && el("button", { type: "button", click: submit }, "Ask again")));
  byId("answer-body").replaceChildren();
  say("No answer was given.");
}

const ON = {
  encoding: (run, { passages, total }) => say(`Encoding the document: ${passages} of ${total} passages…`),
  rewritten: (run, { question }) => {
    run.rewritten = question;
    byId("result-heading").textContent = shown(question);
    askedAs(`You asked “${run.asked.question}”. The model rewrote it as a complete question.`);
  },
  source: (run, { source_id: id, ...found }) => keepSource(id, found),
  retrieved: (run, { documents }) => say(`${counted(documents, "document")} retrieved. Comparing the rankings…`),
  documents: (run, { documents, retracted }) => {
    run.documents = new Map(documents.map((doc) => [doc.id, doc]));
    run.path.retrieved(documents, retracted);
  },
  route_decided: (run, { reason }) => say(`${sentence(reason)}. Reading…`),
  preflight: (run, { preflight, route, ranking }) => run.path.compared(preflight, route, ranking ?? "retrieved"),
  partitions: (run, { partitions }) => run.path.fanOut(partitions),
  partition_started: (run, event) => run.path.started(event),
  partition_done: (run, event) => {
    run.path.done(event);
    sayRead(run, event);
  },
  partition_failed: (run, event) => {
    run.path.failed(event);
    sayRead(run, event);
  },
  extraction: (run, { extraction }) => run.path.extracted(extraction),
  reducing: (run, { evidence }) => {
    say(`Writing the answer from ${counted(evidence, "partition")}…`);
    run.path.answering(`Being written from ${counted(evidence, "partition")}`);
  },
  answering: (run) => {
    say("Writing the answer…");
    run.path.answering("Being written");
  },
  answer_token: (run, { text, attempt = 1 }) => {
    if (typeof text !== "string") return;
    run.draft = attempt === run.attempt ? run.draft + text : text;
    run.attempt = attempt;
    showDraft(run.draft);
  },
  verifying: (run, { sentences }) => {
    say(`Verifying ${counted(sentences, "sentence")}…`);
    run.path.answering("Being verified");
    if (run.draft) showDraft(run.draft, "Written; its sentences are being compared with their sources.");
  },
  answer: (run, { answer, formats, text }) => {
    run.formats = formats ?? {};
    run.text = text;
    run.ended = true;
    run.answer = answer;
    run.path.answered(answer);
    showAnswer(answer, run);
    const count = countChecks(answer);
    const notes = count ? ` ${counted(count, "note")} to check.` : "";
    const cited = answer.citations.length ? `citing ${countedReferences(answer)}` : "without a citation";
    say(`${answer.abstained ? NO_ANSWER : `Answered, ${cited}.`}${notes}`);
  },
  error: (run, { kind, message }) => {
    run.ended = true;
    run.path.end("failed");
    fail(kind, message);
  },
};

function askedAs(words) {
  byId("asked-as").hidden = !words;
  refill(byId("asked-as"), words);
}

function sayRead({ path }, { partitions }) {
  const { done, failed } = path.counts;
  say(`${done} of ${counted(partitions, "partition")} read${failed ? `, ${failed} not read` : ""}…`);
}

async function submit() {
  if (!form.check()) return;
  const run = begin(form.asked(), new Date().toLocaleDateString("en-CA"));
  const id = crypto.randomUUID?.() ?? String(Math.random());
  history.pushState({ run: id }, "");
  const lines = [];
  busy(true);
  toResult();
  try {
    for await (const line of ask(run.asked, form.file(), run.stop.signal)) {
      if (current !== run) return;
      ON[line.event]?.(run, line);
      if (!["answer_token", "source"].includes(line.event)) lines.push(line);
    }
    if (!run.ended) throw new Refused("Unreachable", "The connection broke before the answer arrived.");
    if (run.answer) kept.keep({ id, asked: run.asked, day: run.day, lines });
  } catch (error) {
    if (current !== run) return;
    run.path.end(error.name === "AbortError" ? "stopped" : "failed");
    if (error.name === "AbortError") {
      showNone();
      say("Stopped. No answer was given.");
    } else if (error.kind === "TokenRequired") openGate();
    else if (error instanceof Refused) fail(error.kind, error.message);
    else {
      fail("", "The page could not show what the server sent.");
      throw error;
    }
  } finally {
    if (current === run) busy(false);
  }
}

/** Show a question, and that its answer is to come. */
function begin(asked, day) {
  current?.stop.abort();
  passage.close();
  current = {
    asked, day, stop: new AbortController(), path: new Path(), documents: new Map(), draft: "", attempt: 1, ended: false,
    about: asked.own ? `over the file ${asked.own}` : known.words,
  };
  show(current);
  return current;
}

/** Show the answer of this entry in the tab's history, or the empty form. */
function showKept() {
  const found = kept.find(history.state?.run);
  if (!found) {
    current?.stop.abort();
    current = null;
    passage.close();
    byId("result").hidden = true;
    byId("examples").open = true;
    return;
  }
  form.show({ ...found.asked, earlier: [] });
  const run = begin(found.asked, found.day);
  for (const line of found.lines) ON[line.event]?.(run, line);
  busy(false);
}

function show(run) {
  const options = Object.entries(run.asked.options);
  byId("result").hidden = false;
  byId("result-heading").textContent = shown(run.asked.question);
  askedAs(run.asked.own && `Asked of your file ${run.asked.own} alone.`);
  byId("result-options").hidden = options.length === 0;
  refill(byId("result-options"), options.map(([letter, words]) => el("li", {}, `${letter}. ${words}`)));
  byId("failure").replaceChildren();
  byId("examples").open = false;
  showWaiting();
  say(run.asked.own ? "Reading your file…" : "Opening the sources, and retrieving documents…");
  byId("path-fold").open = false;
}

function toResult() {
  byId("result-heading").focus({ preventScroll: true });
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  byId("result").scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
}

function busy(is) {
  const left = !is && document.activeElement === byId("stop");
  byId("stop").hidden = !is;
  byId("another").hidden = is;
  byId("narrow").hidden = is || byId("filters").hidden;
  byId("follow").hidden = is || !known.model || !current?.answer;
  if (left) byId("another").focus();
  byId("answer").setAttribute("aria-busy", String(is));
}

function openGate(tried) {
  byId("gate-error").textContent = tried ? "That is not the token." : "";
  byId("gate").hidden = false;
  byId("asking").hidden = true;
  byId("result").hidden = true;
  byId("token").focus();
}

async function start(tried) {
  try {
    known = await about();
  } catch (error) {
    if (error.kind === "TokenRequired") openGate(tried);
    else {
      byId("result").hidden = false;
      fail(error.kind, error.message);
    }
    return;
  }
  byId("gate").hidden = true;
  byId("asking").hidden = false;
  const reader = known.own_graph ? null : known.model ?? "none: passages are shown word for word";
  known.words = `over ${known.source}${known.model ? ` with ${known.model}` : ""}`;
  refill(byId("about"),
    el("div", {}, el("dt", {}, "Reads"), el("dd", {}, [known.source, known.size].filter(Boolean).join(", "))),
    reader && el("div", {}, el("dt", {}, "Model"), el("dd", {}, reader)),
    known.extract_model && el("div", {}, el("dt", {}, "Extractions"), el("dd", {}, known.extract_model)));
  passage.useSources(known.sources ? source : null);
  form.prepare(known, submit);
  showKept();
  if (!current) byId("question").focus();
}

takeToken();
passage.prepare();
byId("ask-form").noValidate = true;
byId("ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
byId("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  submit();
});
function askNext(earlier) {
  form.follow(earlier);
  byId("question").focus();
  byId("question").select();
}

byId("another").addEventListener("click", () => askNext([]));
byId("on-its-own").addEventListener("click", () => askNext([]));
byId("narrow").addEventListener("click", form.openFilters);
byId("follow").addEventListener("click", () => {
  const { asked, rewritten } = current;
  askNext([...(asked.earlier ?? []), rewritten ?? asked.question].slice(-8));
});
addEventListener("popstate", showKept);
byId("stop").addEventListener("click", () => current?.stop.abort());
byId("gate-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("token").value.trim());
  start(true);
});
start();
