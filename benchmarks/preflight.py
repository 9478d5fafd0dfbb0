"""The preflight check: what the overlap and a calibration find, what each signal brings, and the time it takes.

Questions are BioASQ's yes/no questions and PubMedQA's of the split train, over BioASQ's passages, PubMedQA's abstracts
and abstracts of other collections; the encoder is minilm. The shipped signals were chosen with all of these questions
and BioASQ's others (factoid, list, summary) in sight; coefficients, regularisation and thresholds never see the
questions that they are measured on. So those figures flatter a little, and "signals chosen" has ones that do not.

- nested: IoU and calibrated on the same questions, the calibrated one by nested cross-validation; positives are key
  documents ranked below 3 (which a map can repair), or those and the ones that were not retrieved.
- signals chosen: signals selected on BioASQ's factoid, list and summary questions, and reported on the others.
- promised and reached: how often the recall of new questions reaches the target, in simulation.
- halves: fitted on one half and measured on the other, 40 times.
- ablation: AUC of each signal alone, and what it brings to the model: of one in it, what the model loses without it;
  of another, what the model gains with it.
- transfer: fitted on one data set and measured on another; and with LSA vectors, a different kind of encoder, whose
  rows "minilm -> LSA" show why a calibration refuses another encoder.
- map: what reading fewer documents in the map saves and loses.
- latency: milliseconds from retrieved documents to the decision, without encoding and search.

    python benchmarks/preflight.py [--data ../shared/data] [--kb DIR] [--work DIR] [--json FILE]

Without --kb it builds the knowledge base in --work (24,000 passages: some minutes on two cores).
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from preflight_parts.lsa_encoder import LSAEncoder
from preflight_parts.studies import (
    ablation,
    halves,
    latency,
    nested,
    of_groups,
    promises,
    selected,
    shorter_map,
    transfer,
)
from retrieval_parts.corpora import UNSAFE_DISTRACTORS, read_bioasq, read_distractors, read_pubmedqa
from rich.console import Console
from rich.table import Table

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.statistics.calibrate import calibrate
from briefcontext.evaluation.statistics.labelled import label_questions
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase

KS = (16, 64)
MAIN = ("bioasq-yesno", "pubmedqa")
OTHER = ("bioasq-factoid", "bioasq-list", "bioasq-summary")


def read_items(data: Path) -> list[Item]:
    """The questions of BioASQ, by type, and of PubMedQA."""
    items = []
    for name, gold in (("bioasq", "gold_pmids_in_corpus"), ("pubmedqa", "gold_pmids")):
        with (data / name / "queries.jsonl").open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                group = f"bioasq-{row['type']}" if name == "bioasq" else name
                items.append(Item(str(row["id"]), row["question"], {}, (), tuple(row[gold]), group=group))
    return items


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table, what is no time in per cent; a row that lacks a column has a blank there."""
    table = Table(title=title)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for column in columns:
        table.add_column(column, justify="left" if isinstance(rows[-1].get(column), str) else "right")
    for row in rows:
        shown = ((row.get(column), ".3f" if column.endswith(" ms") else ".1%") for column in columns)
        table.add_row(*("" if v is None else format(v, form) if isinstance(v, float) else str(v) for v, form in shown))
    console.print(table)


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=Path, default=root / "shared" / "data", help="folder of the data sets")
    parser.add_argument("--kb", type=Path, help="a knowledge base over those passages, built with minilm")
    parser.add_argument("--work", type=Path, help="folder for knowledge bases; default: a temporary one")
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        report = measure(given.data, given.kb, given.work or Path(temporary))
    console = Console(width=170)
    for title, rows in report.items():
        show(console, title, rows)
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def measure(data: Path, folder: Path | None, work: Path) -> dict[str, list[dict[str, Any]]]:
    """All tables by their titles."""
    items = read_items(data)
    bioasq, pubmedqa = read_bioasq(data), read_pubmedqa(data)
    known = {passage.id for passage in bioasq.passages}
    passages = [*bioasq.passages, *(p for p in pubmedqa.passages if p.id not in known)]
    passages += [p for p in read_distractors(data) if p.id not in UNSAFE_DISTRACTORS]
    if folder is None:
        folder = work / "minilm"
        build_knowledge_base(passages, folder, encoder=load_encoder("minilm"))
    lsa = LSAEncoder(passages)
    build_knowledge_base(passages, work / "lsa", encoder=lsa)
    with KnowledgeBase.open(folder) as base, KnowledgeBase.open(work / "lsa", encoder=lsa) as other:
        at = label_questions(base, items, KS)
        main_at = {k: of_groups(labelled, MAIN) for k, labelled in at.items()}
        sixteen, rest = main_at[16], of_groups(at[16], OTHER)
        yesno, papers = of_groups(sixteen, MAIN[:1]), of_groups(sixteen, MAIN[1:])
        every_bioasq = of_groups(at[16], (MAIN[0], *OTHER))
        lsa_all = label_questions(other, items, [16])[16]
        lsa_main = of_groups(lsa_all, MAIN)
        calibration = calibrate(sixteen, base.manifest, 0.95, positive="misplaced")[0]
        asked = [question.item.question for question in sixteen.questions[:200]]
        name = "minilm"
        return {
            "nested cross-validation": [
                *nested(base, main_at, name),
                *nested(base, {16: rest}, "minilm, other BioASQ questions"),
                *nested(other, {16: lsa_main}, "LSA"),
            ],
            "signals chosen on the other BioASQ questions": selected(
                rest,
                {"BioASQ yes/no": yesno, "PubMedQA": papers, "both": sixteen},
                0.95,
            ),
            "promised and reached, in simulation": promises(sixteen),
            "half and half": halves(sixteen),
            "ablation (AUC)": ablation({"minilm": sixteen, "LSA": lsa_main}),
            "transfer (target recall 95%)": transfer(
                [
                    ("BioASQ yes/no", yesno, "PubMedQA", papers),
                    ("PubMedQA", papers, "BioASQ yes/no", yesno),
                    ("all BioASQ", every_bioasq, "PubMedQA", papers),
                    ("other BioASQ", rest, "BioASQ yes/no + PubMedQA", sixteen),
                    ("minilm", sixteen, "LSA", lsa_main),
                    ("LSA", lsa_main, "minilm", sixteen),
                ],
                0.95,
            ),
            "a shorter map": shorter_map(at[16]),
            "latency": latency(base, asked, calibration, KS),
        }


if __name__ == "__main__":
    main()
