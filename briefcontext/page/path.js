// The path that a question takes: retrieval, the two rankings, the partitions, and every document with what became of it.

import { byId, counted, countedReferences, el, refill, sentence } from "./dom.js";
import { beginning, open } from "./passage.js";

const ROUTES = {
  map_reduce: "Read in groups, then reduced (map-reduce)",
  vanilla: "Read in one call, in rank order",
  order_preserving: "Read in one call, in the order of the source",
  abstain: "Nothing to read",
};
const STEPS = { retrieve: "Retrieve", rank: "Compare the rankings", read: "Read", answer: "Answer" };

export class Path {
  constructor() {
    this.steps = {};
    this.documents = new Map();
    this.partitions = [];
    this.cards = [];
    this.counts = { done: 0, failed: 0 };
    const items = Object.entries(STEPS).map(([name, title]) => {
      const body = el("div", { class: "step-body" });
      const item = el("li", { class: "step", id: `step-${name}`, "data-state": "waiting" },
        el("h4", {}, title, el("span", { class: "unseen state" }, " (waiting)")), body);
      this.steps[name] = { item, body };
      return item;
    });
    refill(byId("steps"), items);
    this.state("retrieve", "active");
  }

  state(name, state) {
    const { item } = this.steps[name];
    item.dataset.state = state;
    item.querySelector(".state").textContent = ` (${state})`;
  }

  /** Leave no step or partition looking busy when the run has ended without an answer. */
  end(state) {
    for (const [name, { item, body }] of Object.entries(this.steps)) {
      if (item.dataset.state !== "active") continue;
      this.state(name, state);
      if (name === "answer") refill(body, el("p", {}, "Not written"));
    }
    for (const card of this.cards) if (card.item.dataset.state === "reading") this.mark(card, "stopped", "stopped");
  }

  retrieved(documents, retracted) {
    this.documents = new Map(documents.map((doc) => [doc.id, doc]));
    this.rows = new Map();
    const items = documents.map((doc) => {
      const marks = el("span", { class: "marks" });
      this.rows.set(doc.id, marks);
      return el("li", {}, el("span", { class: "rank" }, doc.rank), this.button(doc), marks);
    });
    refill(this.steps.retrieve.body,
      el("p", {}, counted(documents.length, "document"), " retrieved"),
      retracted.length > 0 && el("p", {}, el("span", { class: "tag bad" }, "left out as retracted"), " ",
        retracted.join(", ")),
      documents.length > 0 && el("details", { class: "fold" }, el("summary", {}, "All documents, in rank order"),
        el("ol", { class: "documents" }, items)));
    this.state("retrieve", "done");
    this.state("rank", "active");
  }

  button(doc) {
    const several = [...this.documents.values()].filter((other) => other.title === doc.title).length > 1;
    return el("button", { type: "button", class: "document", click: () => open(doc) }, doc.title || doc.source_id,
      several && el("span", { class: "beginning" }, beginning(doc)));
  }

  tag(id, words, kind = "") {
    this.rows?.get(id)?.append(el("span", { class: `tag ${kind}` }, words));
  }

  compared(preflight, route, ranking) {
    const { dense_top: dense, bm25_top: bm25, iou, n, threshold } = preflight;
    dense.forEach((id, place) => this.tag(id, `${ranking} ${place + 1}`));
    bm25.forEach((id, place) => this.tag(id, `BM25 ${place + 1}`));
    refill(this.steps.rank.body,
      iou !== null && el("div", { class: "rankings" },
        this.ranking(`${sentence(ranking)}, top ${n}`, dense, bm25),
        this.ranking(`BM25, top ${n}`, bm25, dense)),
      iou !== null && preflight.method !== "calibrated" && overlap(iou, threshold),
      preflight.method === "calibrated" && calibrated(preflight),
      el("p", { class: "route" }, el("strong", {}, ROUTES[route] ?? route)),
      el("p", { class: "hint" }, sentence(preflight.reason)));
    this.state("rank", "done");
    this.state(route === "abstain" ? "answer" : "read", "active");
    if (route === "abstain") this.state("read", "skipped");
    else if (route !== "map_reduce") {
      refill(this.steps.read.body, el("p", {}, counted(this.documents.size, "document"), " in one reading"));
    }
  }

  ranking(title, ids, others) {
    const items = ids.map((id) => {
      const doc = this.documents.get(id);
      const both = others.includes(id);
      return el("li", { class: both && "both" }, doc ? this.button(doc) : id,
        both && el("span", { class: "tag good" }, "in both"));
    });
    return el("section", { class: "ranking", "aria-label": title }, el("h5", {}, title), el("ol", {}, items));
  }

  fanOut(partitions) {
    this.partitions = partitions;
    partitions.forEach((ids, index) => ids.forEach((id) => this.tag(id, `partition ${index + 1}`)));
    this.makeCards(partitions.length);
  }

  makeCards(count) {
    if (this.cards.length === count) return;
    this.cards = Array.from({ length: count }, (_, index) => {
      const outcome = el("p", { class: "outcome" }, "waiting");
      const detail = el("div", {});
      const item = el("li", { class: "partition", "data-state": "waiting" },
        el("h5", {}, `Partition ${index + 1}`), outcome, detail);
      return { item, outcome, detail };
    });
    this.summary = el("p", {});
    refill(this.steps.read.body, this.summary, el("ul", { class: "partitions" }, this.cards.map((card) => card.item)));
    this.count();
  }

  mark(card, state, words) {
    card.item.dataset.state = state;
    card.outcome.textContent = words;
  }

  count() {
    const { done, failed } = this.counts;
    refill(this.summary, `${done} of ${counted(this.cards.length, "partition")} read`,
      failed > 0 && el("strong", { class: "tag bad" }, `${failed} not read`));
  }

  started({ index, partitions, documents }) {
    this.makeCards(partitions);
    this.mark(this.cards[index], "reading", `reading ${counted(documents, "document")}…`);
  }

  done({ index, status, quotes }) {
    const found = status === "evidence" ? `evidence: ${counted(quotes, "quote")}` : "nothing on the question";
    this.mark(this.cards[index], status, found);
    this.counts.done += 1;
    this.count();
  }

  failed({ index, error }) {
    this.mark(this.cards[index], "failed", "not read");
    refill(this.cards[index].detail, el("p", { class: "error" }, error));
    this.counts.failed += 1;
    this.count();
  }

  /** Show what a partition gave: its finding, quotes, choice and confidence. */
  extracted(extraction) {
    const card = this.cards[extraction.index];
    if (!card || extraction.status === "failed") return;
    const quotes = extraction.quotes.map((quote) => {
      const doc = this.documents.get(quote.document_id);
      const own = extraction.quotes.filter((other) => other.document_id === quote.document_id);
      const click = () => doc && open(doc, own, quote);
      return el("li", {}, el("button", { type: "button", class: "quote", click }, `“${quote.text}”`));
    });
    const parts = [
      extraction.choice && `choice ${extraction.choice}`,
      extraction.confidence !== null && `confidence ${extraction.confidence.toFixed(2)}`,
    ].filter(Boolean);
    refill(card.detail,
      parts.length > 0 && el("p", { class: "hint" }, parts.join(" · ")),
      extraction.error && el("p", { class: "error" }, extraction.error),
      (extraction.finding || quotes.length > 0) && el("details", { class: "fold" },
        el("summary", {}, "What it found"),
        extraction.finding && el("p", {}, extraction.finding), el("ul", {}, quotes)));
  }

  answering(words) {
    this.state("read", "done");
    this.state("answer", "active");
    refill(this.steps.answer.body, el("p", {}, words));
  }

  answered(answer) {
    answer.citations.forEach((citation) => this.tag(citation.document_id, `cited [${citation.key}]`, "good"));
    for (const name of ["rank", "read", "answer"]) {
      if (this.steps[name].item.dataset.state !== "skipped") this.state(name, "done");
    }
    refill(this.steps.answer.body, el("p", {}, answer.abstained ? "No answer was found in the documents."
      : `${countedReferences(answer)} cited`));
  }
}

function overlap(iou, threshold) {
  return el("div", { class: "overlap" },
    el("p", {}, "Overlap ", el("strong", {}, iou.toFixed(2)), ` · they agree above ${threshold.toFixed(2)}`),
    track(iou, threshold));
}

function calibrated({ iou, probability, probability_threshold: threshold, contributions, caution }) {
  return el("div", { class: "overlap" },
    iou !== null && el("p", { class: "hint" }, `Overlap ${iou.toFixed(2)}; a calibration decides`),
    probability !== null && [
      el("p", {}, "Probability that the key document is ranked low or missing ",
        el("strong", {}, probability.toFixed(2)), ` · read in groups from ${threshold.toFixed(2)}`),
      track(probability, threshold)],
    caution && el("p", { class: "notice warn" }, caution),
    contributions && el("details", { class: "fold" }, el("summary", {}, "What speaks for it, and against"),
      el("ul", {}, Object.entries(contributions).map(([signal, odds]) =>
        el("li", {}, `${signal.replaceAll("_", " ")}: ${odds > 0 ? "+" : ""}${odds.toFixed(2)} log-odds`)))));
}

function track(value, threshold) {
  const bar = el("span", { class: "bar" });
  bar.style.inlineSize = `${value * 100}%`;
  const limit = el("span", { class: "limit" });
  limit.style.insetInlineStart = `${threshold * 100}%`;
  return el("div", { class: "track", "aria-hidden": "true" }, bar, limit);
}
