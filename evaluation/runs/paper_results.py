"""Results that the papers report, beside which runs are set; they are of other models and corpora.

Each carries its paper, the table or figure that prints it, and the row and column there. OP-RAG's were checked against
its text. BriefContext's two texts, the journal's and the preprint's, differ in places, and both are listed where both
are known; they were noted from the texts and not checked again, and where a note does not name the place, neither does
this list.
"""

from dataclasses import dataclass

__all__ = ["NOT_AVAILABLE", "NPJ", "OP_RAG", "PREPRINT", "PUBLISHED", "Published"]

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


@dataclass(frozen=True)
class Published:
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


def _cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


PUBLISHED = (
    *(Published(name, _PAPERS[paper], _PLACES[place], *rest) for name, paper, place, *rest in _cells(_NOTED)),
    *(
        Published("order", OP_RAG, "Table 1", row, column, figure)
        for row, *figures in _cells(_TABLE_1)
        for column, figure in zip(_COLUMNS_1, figures, strict=True)
    ),
)

NOT_AVAILABLE = ("context_length", "attention_bias")
"""Experiments of the papers whose figures are not available here, so that a run has none to stand beside."""
