"""The preflight check: what the overlap and a calibration find, how far that holds elsewhere, and the time it takes.

Questions are BioASQ's yes/no questions and PubMedQA's of the split train, over BioASQ's passages, PubMedQA's abstracts
and abstracts of other collections; the encoder is minilm. The shipped signals were chosen with all of these questions
and BioASQ's others (factoid, list, summary) in sight; coefficients, regularisation and thresholds never see the
questions that they are measured on. So these figures flatter a little.

- nested: IoU and calibrated on the same questions, the calibrated one by nested cross-validation; positives are key
  documents ranked below 3 (which a map can repair), or those and the ones that were not retrieved.
- promised and reached: how often the recall of new questions reaches the target, in simulation.
- transfer: fitted on one data set and measured on another.
- latency: milliseconds from retrieved documents to the decision, without encoding and search.

    python benchmarks/preflight.py [--data ../shared/data] [--kb DIR] [--work DIR] [--json FILE]

Without --kb it builds the knowledge base in --work (24,000 passages: some minutes on two cores).
"""

import tempfile
from pathlib import Path

from parts.corpora import read_passages, read_questions
from parts.report import Row, options, show, write
from parts.studies import latency, nested, of_groups, promises, transfer

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.statistics.calibrate import calibrate
from briefcontext.evaluation.statistics.labelled import label_questions
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase

KS = (16, 64)
MAIN = ("bioasq-yesno", "pubmedqa")
OTHER = ("bioasq-factoid", "bioasq-list", "bioasq-summary")


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = options(__doc__, "--data", "--work", "--json")
    parser.add_argument("--kb", type=Path, help="a knowledge base over those passages, built with minilm")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        report = measure(given.data, given.kb, given.work or Path(temporary))
    for title, rows in report.items():
        show(title, rows, dict.fromkeys(("median ms", "p95 ms", "CPU ms"), ".3f"))
    write(given.json, report)


def measure(data: Path, folder: Path | None, work: Path) -> dict[str, list[Row]]:
    """All tables by their titles."""
    items = [
        Item(asked.id, asked.text, {}, (), tuple(sorted(asked.gold)), group=f"{name}-{asked.kind}".rstrip("-"))
        for name in ("bioasq", "pubmedqa")
        for asked in read_questions(data, name)
    ]
    if folder is None:
        folder = work / "minilm"
        build_knowledge_base(read_passages(data), folder, encoder=load_encoder("minilm"))
    with KnowledgeBase.open(folder) as base:
        at = label_questions(base, items, KS)
        main_at = {k: of_groups(labelled, MAIN) for k, labelled in at.items()}
        sixteen, rest = main_at[16], of_groups(at[16], OTHER)
        yesno, papers = of_groups(sixteen, MAIN[:1]), of_groups(sixteen, MAIN[1:])
        every_bioasq = of_groups(at[16], (MAIN[0], *OTHER))
        calibration = calibrate(sixteen, base.manifest, 0.95, positive="misplaced")[0]
        asked = [question.item.question for question in sixteen.questions[:200]]
        return {
            "nested cross-validation": [*nested(base, main_at), *nested(base, {16: rest})],
            "promised and reached, in simulation": promises(sixteen),
            "transfer (target recall 95%)": transfer(
                [
                    ("BioASQ yes/no", yesno, "PubMedQA", papers),
                    ("PubMedQA", papers, "BioASQ yes/no", yesno),
                    ("all BioASQ", every_bioasq, "PubMedQA", papers),
                    ("other BioASQ", rest, "BioASQ yes/no + PubMedQA", sixteen),
                ],
                0.95,
            ),
            "latency": latency(base, asked, calibration, KS),
        }


if __name__ == "__main__":
    main()
