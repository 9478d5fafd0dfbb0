"""Figures that the two papers report, to set runs beside. They are other models on other corpora."""

from dataclasses import dataclass

__all__ = ["PUBLISHED", "Published"]

BRIEFCONTEXT = "Zhang et al., BriefContext, npj Digital Medicine 2025"
OP_RAG = "Yu et al., OP-RAG, arXiv 2409.01666, 2024"


@dataclass(frozen=True)
class Published:
    """One figure as its paper gives it."""

    experiment: str
    what: str
    figure: str
    source: str


PUBLISHED = tuple(
    Published(experiment, what, figure, source)
    for experiment, what, figure, source in (
        ("position", "Spread over five positions, vanilla, GPT-3.5, k = 8", "15.2 points", BRIEFCONTEXT),
        ("position", "Spread over five positions, BriefContext, GPT-3.5, k = 8", "4.4 points", BRIEFCONTEXT),
        ("position", "BriefContext against vanilla at position 0, GPT-3.5, k = 8", "-5.3 points", BRIEFCONTEXT),
        ("integration", "Mean of MedMCQA, PubMedQA, BioASQ, Llama2-70B", "55.81 -> 66.47", BRIEFCONTEXT),
        ("integration", "Mean of MedMCQA, PubMedQA, BioASQ, Llama3-70B", "76.75 -> 79.03", BRIEFCONTEXT),
        ("integration", "Mean of MedMCQA, PubMedQA, BioASQ, Mixtral", "70.52 -> 72.20", BRIEFCONTEXT),
        ("integration", "Mean of MedMCQA, PubMedQA, BioASQ, GPT-3.5", "69.19 -> 72.51", BRIEFCONTEXT),
        ("conflict", "Conflicting partitions resolved", "396 of 530", BRIEFCONTEXT),
        ("cost", "Input and output tokens of a question, vanilla, k = 8", "3066 and 183", BRIEFCONTEXT),
        ("cost", "Input and output tokens of a question, BriefContext, k = 8", "5496.5 and 247.5", BRIEFCONTEXT),
        ("preflight", "TP, FP, FN, TN of 1,118 questions", "426, 423, 34, 235", BRIEFCONTEXT),
        ("preflight", "Precision, recall, F1", "50.18, 92.61, 65.09", BRIEFCONTEXT),
        ("preflight", "Specificity, computed from these counts", "35.71", BRIEFCONTEXT),
        ("preflight", "Questions that skip the map", "24.1%", BRIEFCONTEXT),
        ("order", "EN.QA F1, vanilla, Llama3.1-70B, 128 chunks of 128 tokens", "38.40", OP_RAG),
        ("order", "EN.QA F1, OP-RAG, Llama3.1-70B, 128 chunks of 128 tokens", "44.43", OP_RAG),
        ("order", "EN.QA F1, OP-RAG, Llama3.1-70B, 48K tokens", "47.25", OP_RAG),
        ("order", "EN.QA F1, whole document, Llama3.1-70B", "34.26", OP_RAG),
        ("order", "EN.QA F1, SELF-ROUTE, GPT-4o", "34.95", OP_RAG),
    )
)
