"""Runs side by side, and beside the papers' figures, which are of other models and corpora.

OP-RAG's were checked against its text. BriefContext's two texts, the journal's and the preprint's, differ in places;
theirs were noted and not checked again, and where a note does not name the place, neither does the list here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from briefcontext.errors import InputError
from briefcontext.evaluation.experiments.preflight_report import COUNTS, SHARES, decisions, share_of
from briefcontext.evaluation.runs.folder import RunFolder
from briefcontext.evaluation.runs.results import SIMULATION
from briefcontext.evaluation.statistics.tables import (
    SCORE_NAMES,
    Columns,
    Record,
    Table,
    amount_of,
    head_of,
    interval_of,
    label_of,
    p_value,
    percent,
    percent_of,
    points_with_interval,
    title_of,
    win_tie_lose,
)

NPJ = "Zhang et al., BriefContext, npj Digital Medicine 8, 239, 2025"
PREPRINT = "Zhang et al., BriefContext, arXiv 2412.15271, 2024"
OP_RAG = "Yu et al., OP-RAG, arXiv 2409.01666, 2024"

_PAPERS = {"npj": NPJ, "preprint": PREPRINT, "OP-RAG": OP_RAG}
_PLACES = {
    "?": "table not available here",
    "text?": "text; not checked",
    "S1": "Supplementary Table 1",
    "S2": "Figure 4 and Supplementary Table 2",
    # The preprint's table is transposed against its own text.
    "S4": "Supplementary Table 4; its labels give precision 92.61 and recall 50.18, the text is followed",
    "3": "Figure 3, as its text gives it",
    "4": "Figure 4, as its text gives it",
}


class Published(NamedTuple):
    """One figure as its paper gives it."""

    experiment: str
    paper: str
    place: str
    """The table or figure."""
    row: str
    column: str
    figure: str


_NOTED = """
position | npj | ? | GPT-3.5, k = 8 | Mean over five positions, vanilla -> BriefContext | 54.82 -> 58.11
position | npj | ? | GPT-3.5, k = 16 | Mean over five positions, vanilla -> BriefContext | 52.12 -> 58.51
position | npj | ? | Mixtral, k = 16 | Mean over five positions, vanilla -> BriefContext | 57.66 -> 60.41
position | preprint | S1 | GPT-3.5, k = 8 | Mean over five positions, vanilla -> BriefContext | 53.33 -> 59.51
position | preprint | S1 | GPT-3.5, k = 8 | Best minus worst of five positions, vanilla (computed) | 15.2 points
position | preprint | S1 | GPT-3.5, k = 8 | Best minus worst of five positions, BriefContext (computed) | 4.4 points
position | preprint | S1 | GPT-3.5, k = 8 | BriefContext minus vanilla at position 0 (computed) | -5.3 points
integration | npj | ? | Llama2-70B | Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext | 55.81 -> 66.47
integration | npj | ? | Llama3-70B | Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext | 76.75 -> 79.03
integration | npj | ? | Mixtral | Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext | 70.52 -> 72.20
integration | npj | ? | GPT-3.5 | Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext | 69.19 -> 72.51
conflict | npj | S2 | Conflicting partitions | Resolved | 396 of 530
cost | npj | ? | Vanilla, k = 8 | Input and output tokens of a question | 3066 and 183
cost | npj | ? | BriefContext, k = 8 | Input and output tokens of a question | 5496.5 and 247.5
cost | npj | ? | BriefContext | Saved by the preflight | up to 35%
preflight | npj | text? | Check | Precision | 50.2
preflight | npj | text? | Check | Recall | 92.6
preflight | npj | text? | Check | Specificity (true negatives filtered) | 35.7
preflight | preprint | S4 | Check | TP, FP, FN, TN of 1,118 questions | 426, 423, 34, 235
preflight | preprint | S4 | Check | Precision | 50.18
preflight | preprint | S4 | Check | Recall | 92.61
preflight | preprint | S4 | Check | F1 | 65.09
preflight | preprint | S4 | Check | Specificity (true negatives filtered) | 35.71 (computed from the counts)
preflight | preprint | S4 | Check | Questions that skip the map | 24.1%
open_ended | npj | ? | BriefContext against vanilla | Win / tie / lose, in per cent | 29.2 / 58.3 / 12.5
order | OP-RAG | 4 | 128 chunks, Llama3.1-70B | EN.QA F1, vanilla -> OP-RAG | 38.40 -> 44.43
order | OP-RAG | 4 | 192 chunks, Llama3.1-70B | EN.MC accuracy, vanilla -> OP-RAG | 81.22 -> 88.65
order | OP-RAG | 3 | Llama3.1-8B | Best context length, EN.QA and EN.MC | 16K and 16K
order | OP-RAG | 3 | Llama3.1-70B | Best context length, EN.QA and EN.MC | 48K and 32K
"""
_TABLE_1 = """
Long context, Llama3.1-70B | 34.26 | 117K | 71.62 | 117K
Long context, GPT-4o | 32.36 | 117K | 78.42 | 117K
Long context, Gemini-1.5-Pro | 43.08 | 196K | 85.57 | 188K
SELF-ROUTE, GPT-4o | 34.95 | 85K | 77.29 | 62K
SELF-ROUTE, Gemini-1.5-Pro | 37.51 | 83K | 76.86 | 62K
OP-RAG-16K (128 chunks), Llama3.1-70B | 44.43 | 16K | 84.72 | 16K
OP-RAG-24K (192 chunks), Llama3.1-70B | 45.45 | 24K | 88.65 | 24K
OP-RAG-48K (384 chunks), Llama3.1-70B | 47.25 | 48K | 85.59 | 48K
"""
_COLUMNS_1 = ("EN.QA F1", "EN.QA tokens", "EN.MC accuracy", "EN.MC tokens")
PUBLISHED = (
    *(
        Published(name, _PAPERS[paper], _PLACES[place], *rest)
        for name, paper, place, *rest in (line.split(" | ") for line in _NOTED.strip().splitlines())
    ),
    *(
        Published("order", OP_RAG, "Table 1", row, column, figure)
        for row, *figures in (line.split(" | ") for line in _TABLE_1.strip().splitlines())
        for column, figure in zip(_COLUMNS_1, figures, strict=True)
    ),
)

NOT_AVAILABLE = ("context_length", "attention_bias")
"""Experiments of the papers whose figures are not available here, so that a run has none to stand beside."""

PREFLIGHT = "preflight"
"""The study that asks no model: it has counts of decisions in place of scores."""


def compare_runs(folders: Sequence[Path]) -> str:
    """Return runs side by side as Markdown, an experiment after another, and the papers' figures under each.

    Raises:
        InputError: there is none, or a folder is not one of a finished run.
    """
    if not folders:
        raise InputError("There is no run to compare. Name the folders of one or more.")
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    # A study of the preflight may have no other mark than its counts.
    read = ({"experiment": PREFLIGHT, **RunFolder(folder).summary()} for folder in folders)
    summaries = dict(zip(names, read, strict=True))
    parts = ["# Runs compared", ""]
    if marked := [name for name, summary in summaries.items() if summary.get("simulation")]:
        parts += [f"{SIMULATION} This holds for: {', '.join(marked)}.", ""]
    parts += [_runs_table(summaries).markdown(), ""]
    for experiment in dict.fromkeys(str(summary["experiment"]) for summary in summaries.values()):
        some = {name: summary for name, summary in summaries.items() if summary["experiment"] == experiment}
        parts += [f"## {experiment}", ""]
        own = _preflight_tables(some) if experiment == PREFLIGHT else [*_score_tables(some), _own_table(some)]
        for table in (*own, _published_table(experiment)):
            if table.rows:
                parts += [table.markdown(), ""]
        if experiment in NOT_AVAILABLE:
            parts += ["The papers' figures of this experiment are not available here.", ""]
    return "\n".join(parts)


def _runs_table(summaries: Mapping[str, Record]) -> Table:
    columns = ("items", "answers", "failed", "calls", "input_tokens", "output_tokens")
    rows = [
        [
            name,
            str(summary["experiment"]),
            "none" if summary["experiment"] == PREFLIGHT else str(summary.get("model") or "–"),
            str(summary.get("data_set") or "–"),
            _knowledge_base(summary),
            *(_number(summary.get(column, "–")) for column in columns),
            "yes" if summary.get("simulation") else "no",
        ]
        for name, summary in summaries.items()
    ]
    heads = ["Experiment", "Model", "Data set", "Knowledge base", "n", "Answers", "Failed", "Requests"]
    return Table("Runs", ["Run", *heads, "Input tokens", "Output tokens", "Simulation"], rows)


def _knowledge_base(summary: Record) -> str:
    base, passages, encoder = summary.get("knowledge_base"), summary.get("passages"), summary.get("encoder")
    if isinstance(base, dict):
        passages, encoder = base.get("passages"), base.get("encoder")
    name = encoder.get("name") if isinstance(encoder, dict) else encoder
    return f"{_number(passages)} passages, {name}" if passages is not None else "–"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _preflight_tables(summaries: Mapping[str, Record]) -> list[Table]:
    """What the checks decide, over all questions and by data set, a row a run and check."""
    decided = [
        {**one, "run": name, "questions": group, "k": summary.get("k", "–"), "n": counted.get("n", "–")}
        for name, summary in summaries.items()
        for group, counted in {**(summary.get("groups") or {}), "all": summary}.items()
        for one in decisions(counted)
    ]
    columns: Columns = {
        **{head_of(name): itemgetter(name) for name in ("run", "check", "questions")},
        "k": itemgetter("k"),
        "n": lambda one: _number(one["n"]),
        "Positives": itemgetter("positives"),
        **{name.upper(): amount_of(name, ",") for name in COUNTS},
        **{f"{head_of(name)} [95% CI]": share_of(name) for name in SHARES},
        "F1": percent_of("f1"),
        "Skip the map": percent_of("skip_share"),
        "AUC [95% CI]": interval_of("auc"),
    }
    note = (
        "Positive: the key document is ranked below 3, which a map can repair, or was not retrieved, which it cannot; "
        "the papers count both. Predicted positive: the question goes to the map. In per cent, shares with Wilson's "
        "intervals, areas under the ROC curve with the bootstrap's."
    )
    reasons = [[name, str(s["calibrated_reason"])] for name, s in summaries.items() if s.get("calibrated_reason")]
    return [
        Table.of("Decisions", decided, columns, note),
        Table("Without a calibrated check", ["Run", "Why"], reasons),
    ]


Figures = Iterable[tuple[tuple[str, str], str, str]]
"""What heads a row, the column, and what stands there."""


def _side_by_side(title: str, heads: tuple[str, str], figures: Figures, columns: Iterable[str], note: str) -> Table:
    columns, rows = list(columns), dict[tuple[str, str], dict[str, str]]()
    for key, column, shown in figures:
        rows.setdefault(key, {})[column] = shown
    cells = [[*key, *(values.get(column, "–") for column in columns)] for key, values in rows.items()]
    return Table(title, [*heads, *columns], cells, note)


def _score_tables(summaries: Mapping[str, Record]) -> list[Table]:
    """Scores by metric, data set, method and condition, a column a run; cells without a score show their n alone."""
    found: dict[str, list[tuple[tuple[str, str], str, str]]] = {}
    for name, summary in summaries.items():
        groups = summary.get("groups") or {str(summary.get("data_set", "")): summary.get("cells") or []}
        for group, cell in ((group, cell) for group, cells in groups.items() for cell in cells):
            title = f"{SCORE_NAMES.get(cell.get('metric', ''), 'Scores')} on {group}"
            key = title_of(cell["method"]), label_of(cell["condition"]) or "any"
            found.setdefault(title, []).append((key, name, _with_n("score")(cell)))
    note = "In per cent, with 95% intervals."
    return [_side_by_side(title, ("Method", "Condition"), some, summaries, note) for title, some in found.items()]


def _own_table(summaries: Mapping[str, Record]) -> Table:
    """What an experiment has beside scores: differences, spreads, conflicts, verdicts, costs, means over data sets."""
    found = ((key, name, shown) for name, summary in summaries.items() for key, shown in _own(summary))
    note = "Differences and spreads in percentage points, means in per cent, all with 95% intervals."
    return _side_by_side("Beside the scores", ("What", "Condition"), found, summaries, note)


def _own(summary: Record) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what is compared with the condition, and the figure."""
    effects = "Random documents minus neighbours" if summary["experiment"] == "attention_bias" else "Against the fewest"
    for key, words, shown in (
        ("spread", "Spread", _with_n("spread")),
        ("comparisons", "Difference from vanilla", _difference),
        ("mean_comparisons", "Difference from vanilla, mean over the positions", _difference),
        ("average_comparisons", "Difference from vanilla, mean over data sets", _difference),
        ("means", "Mean over the positions", _with_n("score")),
        ("effects", effects, _difference),
        ("conflicts", "Conflicts resolved", lambda one: f"{one['resolved']} of {one['n']}"),
        ("costs", "Input and output tokens", _tokens("input_tokens", "output_tokens")),
        ("predictions", "The same by equations 4 and 5", _tokens("predicted_input", "predicted_output")),
        ("savings", "Saved by the preflight", _with_n("saved")),
        ("averages", "Mean over data sets", lambda one: f"{interval_of('score')(one)} ({one['groups']} data sets)"),
        ("in_parts", "Did not fit and was read in parts", lambda one: f"{one['answers']} of {one['n']} answers"),
    ):
        for one in summary.get(key) or []:
            metric = f" in {SCORE_NAMES[one['metric']]}" if one.get("metric") in SCORE_NAMES else ""
            group = f" on {one['group']}" if "group" in one else ""
            subject = title_of(one["method"]) if "method" in one else one.get("what")
            what = f"{words}{metric}{group}" + (f", {subject}" if subject else "")
            yield (what, label_of(one.get("condition", {"k": one.get("k")})) or "any"), shown(one)
    two = list(dict.fromkeys(title_of(cell["method"]) for cell in summary.get("cells", [])))
    against = f", {two[1]} against {two[0]}" if len(two) == 2 else ""
    for verdict in summary.get("verdicts", []):
        value = f"{win_tie_lose(verdict)}, preferred {interval_of('share')(verdict)} (n = {verdict['n']}, "
        value += f"p (Holm) {p_value(verdict['p_holm'])})"
        yield (f"Win / tie / lose{against}", f"rater {verdict['rater']}"), value
    if agreed := summary.get("consensus"):
        shares = " / ".join(percent(agreed[name] / agreed["n"]) for name in ("win", "tie", "lose"))
        what = f"Win / tie / lose in per cent{against}"
        yield (what, "consensus of the raters"), f"{shares} (n = {agreed['n']})"


def _with_n(name: str) -> Callable[[Record], str]:
    return lambda one: f"{interval_of(name)(one)} (n = {one['n']})"


def _tokens(input: str, output: str) -> Callable[[Record], str]:
    return lambda one: f"{one[input]:,.1f} and {one[output]:,.1f} (n = {one['n']})"


def _difference(one: Record) -> str:
    shown = points_with_interval(one["difference"], one["low"], one["high"])
    return f"{shown} (n = {one['n']}, p (Holm) {p_value(one['p_holm'])})"


def _published_table(experiment: str) -> Table:
    """The papers' figures, a row each, with a column a paper: where two texts differ, both stand side by side."""
    figures = [p for p in PUBLISHED if p.experiment == experiment]
    return _side_by_side(
        "What the papers report",
        ("Row", "Column"),
        (((p.row, p.column), p.paper, f"{p.figure} ({p.place})") for p in figures),
        dict.fromkeys(p.paper for p in figures),
        "Other models, corpora and questions: to be set beside a run, and not to be tested against it. OP-RAG's "
        "figures were checked against its text; BriefContext's were noted from its two texts, and not checked again.",
    )
