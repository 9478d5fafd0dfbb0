"""Results that the papers report, beside which runs are set; they are of other models and corpora.

Each carries its paper, the table or figure that prints it, and the row and column there. Where our sources give a
figure without its place, the place says so. BriefContext has two texts, the journal's and the preprint's, whose
figures differ in places: where both are known, both are listed.
"""

from dataclasses import dataclass

__all__ = ["NOT_AVAILABLE", "NPJ", "OP_RAG", "PREPRINT", "PUBLISHED", "Published"]

NPJ = "Zhang et al., BriefContext, npj Digital Medicine 8, 239, 2025"
PREPRINT = "Zhang et al., BriefContext, arXiv 2412.15271, 2024"
OP_RAG = "Yu et al., OP-RAG, arXiv 2409.01666, 2024"

UNKNOWN = "table not available here"
BY_LABEL = "Supplementary Table 4; its labels give precision 92.61 and recall 50.18, the text is followed"
"""The preprint's table is transposed against its own text."""


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


PUBLISHED = tuple(
    Published(experiment, paper, place, row, column, figure)
    for experiment, paper, place, entries in (
        (
            "position",
            NPJ,
            UNKNOWN,
            (
                ("GPT-3.5, k = 8", "Mean over five positions, vanilla -> BriefContext", "54.82 -> 58.11"),
                ("GPT-3.5, k = 16", "Mean over five positions, vanilla -> BriefContext", "52.12 -> 58.51"),
                ("Mixtral, k = 16", "Mean over five positions, vanilla -> BriefContext", "57.66 -> 60.41"),
            ),
        ),
        (
            "position",
            PREPRINT,
            "Supplementary Table 1",
            (
                ("GPT-3.5, k = 8", "Mean over five positions, vanilla -> BriefContext", "53.33 -> 59.51"),
                ("GPT-3.5, k = 8", "Best minus worst of five positions, vanilla (computed)", "15.2 points"),
                ("GPT-3.5, k = 8", "Best minus worst of five positions, BriefContext (computed)", "4.4 points"),
                ("GPT-3.5, k = 8", "BriefContext minus vanilla at position 0 (computed)", "-5.3 points"),
            ),
        ),
        (
            "integration",
            NPJ,
            UNKNOWN,
            tuple(
                (model, "Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext", figure)
                for model, figure in (
                    ("Llama2-70B", "55.81 -> 66.47"),
                    ("Llama3-70B", "76.75 -> 79.03"),
                    ("Mixtral", "70.52 -> 72.20"),
                    ("GPT-3.5", "69.19 -> 72.51"),
                )
            ),
        ),
        (
            "conflict",
            NPJ,
            "Figure 4 and Supplementary Table 2",
            (("Conflicting partitions", "Resolved", "396 of 530"),),
        ),
        (
            "cost",
            NPJ,
            UNKNOWN,
            (
                ("Vanilla, k = 8", "Input and output tokens of a question", "3066 and 183"),
                ("BriefContext, k = 8", "Input and output tokens of a question", "5496.5 and 247.5"),
                ("BriefContext", "Saved by the preflight", "up to 35%"),
            ),
        ),
        (
            "preflight",
            NPJ,
            "text",
            (
                ("Check", "Precision", "50.2"),
                ("Check", "Recall", "92.6"),
                ("Check", "Specificity (true negatives filtered)", "35.7"),
            ),
        ),
        (
            "preflight",
            PREPRINT,
            BY_LABEL,
            (
                ("Check", "TP, FP, FN, TN of 1,118 questions", "426, 423, 34, 235"),
                ("Check", "Precision", "50.18"),
                ("Check", "Recall", "92.61"),
                ("Check", "F1", "65.09"),
                ("Check", "Specificity (true negatives filtered)", "35.71 (computed from the counts)"),
                ("Check", "Questions that skip the map", "24.1%"),
            ),
        ),
        (
            "open_ended",
            NPJ,
            UNKNOWN,
            (("BriefContext against vanilla", "Win / tie / lose, in per cent", "29.2 / 58.3 / 12.5"),),
        ),
        (
            "order",
            OP_RAG,
            "Table 1",
            tuple(
                (row, column, figure)
                for row, *figures in (
                    ("Long context, Llama3.1-70B", "34.26", "117K", "71.62", "117K"),
                    ("Long context, GPT-4o", "32.36", "117K", "78.42", "117K"),
                    ("Long context, Gemini-1.5-Pro", "43.08", "196K", "85.57", "188K"),
                    ("SELF-ROUTE, GPT-4o", "34.95", "85K", "77.29", "62K"),
                    ("SELF-ROUTE, Gemini-1.5-Pro", "37.51", "83K", "76.86", "62K"),
                    ("OP-RAG-16K (128 chunks), Llama3.1-70B", "44.43", "16K", "84.72", "16K"),
                    ("OP-RAG-24K (192 chunks), Llama3.1-70B", "45.45", "24K", "88.65", "24K"),
                    ("OP-RAG-48K (384 chunks), Llama3.1-70B", "47.25", "48K", "85.59", "48K"),
                )
                for column, figure in zip(
                    ("EN.QA F1", "EN.QA tokens", "EN.MC accuracy", "EN.MC tokens"), figures, strict=True
                )
            ),
        ),
        (
            "order",
            OP_RAG,
            "Figure 4, as its text gives it",
            (
                ("128 chunks, Llama3.1-70B", "EN.QA F1, vanilla -> OP-RAG", "38.40 -> 44.43"),
                ("192 chunks, Llama3.1-70B", "EN.MC accuracy, vanilla -> OP-RAG", "81.22 -> 88.65"),
            ),
        ),
        (
            "order",
            OP_RAG,
            "Figure 3, as its text gives it",
            (
                ("Llama3.1-8B", "Best context length, EN.QA and EN.MC", "16K and 16K"),
                ("Llama3.1-70B", "Best context length, EN.QA and EN.MC", "48K and 32K"),
            ),
        ),
    )
    for row, column, figure in entries
)

NOT_AVAILABLE = ("context_length", "attention_bias")
"""Experiments of the papers whose figures are not available here, so that a run has none to stand beside."""
