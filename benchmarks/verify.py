"""Verification of claims, on pairs of SciFact: an expert's claim and the cited abstract.

Each claim is verified alone against its title and abstract, as a sentence of an answer is. A claim
is flagged if it is not judged as supported. More flagged contradicted claims and fewer flagged
supported ones are better; intervals are Wilson's at 95%. Without --model only the figures of claims
are compared, as in every answer.

    python benchmarks/verify.py [--data ../shared/data] [--model NAME] [--pairs N] [--json FILE]
    python benchmarks/verify.py --model NAME --work DIR --batch export
    python benchmarks/verify.py --model NAME --work DIR --batch import --replies FILE

NAME is a chat model as provider:model, or cross-encoder:NAME. --batch export writes the requests to
DIR as a provider's batch of OpenAI's form and sends none; --batch import reads the results from
FILE.
"""

import asyncio
import gzip
import json
import random
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_openai import ChatOpenAI
from parts.report import Row, options, show, write

from briefcontext.chains.claims import Claim, missing_figures
from briefcontext.chains.model.call import Model
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.verify import (
    EntailmentVerifier,
    Judgement,
    ModelVerifier,
    Passage,
    Verification,
    Verifier,
)
from briefcontext.evaluation.runs.batch import Batch
from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.graphs.resources import CROSS_ENCODER
from briefcontext.knowledge.encoders.entailment import EntailmentModel

LABELS = ("supported", "contradicted", "not_stated")
KEY = "1"
QUESTION = "Is this claim right?"
AT_ONCE = 16


class FigureCheck:
    """Flags claims with figures that their source lacks."""

    name = "figures"

    async def averify(
        self,
        question: str,
        claims: Sequence[Claim],
        passages: dict[str, Passage],
        budget: CallBudget,
    ) -> Verification:
        """Judge by the figures alone."""
        return Verification(
            {
                claim: Judgement(
                    "not_stated"
                    if missing_figures(claim.text, [passages[KEY].document])
                    else "supported"
                )
                for claim in claims
            }
        )


def read_pairs(data: Path, count: int | None) -> list[dict[str, Any]]:
    """Return the pairs, or a number of each label, drawn with a fixed seed."""
    with gzip.open(data / "scifact" / "pairs.jsonl.gz", "rt", encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    if count is None:
        return pairs
    random.Random(0).shuffle(pairs)
    return [
        pair
        for label in LABELS
        for pair in [each for each in pairs if each["label"] == label][:count]
    ]


async def verify_all(
    verifier: Verifier, pairs: Sequence[dict[str, Any]], budget: CallBudget
) -> list[Verification]:
    """Verify each claim alone."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def verify(pair: dict[str, Any]) -> Verification:
        text = " ".join(pair["sentences"])
        source = Document(id=pair["id"], page_content=text, metadata={"title": pair["title"]})
        claim = Claim(0, len(pair["claim"]), pair["claim"], (KEY,))
        async with slots:
            return await verifier.averify(QUESTION, [claim], {KEY: Passage(source, [])}, budget)

    return await asyncio.gather(*map(verify, pairs))


def measure(pairs: Sequence[dict[str, Any]], found: Sequence[Verification]) -> list[Row]:
    """Return the verdicts of each label, and the share that is flagged."""
    rows = []
    for label in LABELS:
        verdicts = Counter(
            next((judged.verdict for judged in each.judgements.values()), "none")
            for pair, each in zip(pairs, found, strict=True)
            if pair["label"] == label
        )
        judged = verdicts.total() - verdicts["none"]
        flagged = judged - verdicts["supported"]
        low, high = wilson(flagged, judged) if judged else (0.0, 0.0)
        row: Row = {
            "label": label,
            "n": judged,
            "flagged": flagged / max(judged, 1),
            "low": low,
            "high": high,
        }
        rows.append(
            row | {f"as {verdict}": verdicts[verdict] for verdict in (*LABELS, "partly", "none")}
        )
    return rows


def cost(budget: CallBudget) -> Row:
    """Return the calls and tokens."""
    return {
        "calls": len(budget.calls),
        "input tokens": sum(call["input_tokens"] for call in budget.calls),
        "output tokens": sum(call["output_tokens"] for call in budget.calls),
    }


def open_verifier(given: Namespace, batch: Batch | None) -> Verifier:
    """Return the judge that the options name."""
    if given.model is None:
        return FigureCheck()
    if given.model.startswith(CROSS_ENCODER):
        scorer = EntailmentModel(given.model.removeprefix(CROSS_ENCODER))
        return EntailmentVerifier(lambda: scorer, given.model)
    if batch is None:
        return ModelVerifier(Model(given.model))
    arguments: dict[str, Any] = {"max_retries": 0, **batch.client_arguments()}
    chat = ChatOpenAI(model=given.model.partition(":")[2] or given.model, **arguments)
    # The provider of a batch may not support JSON schemas.
    return ModelVerifier(Model(chat, structured_output="prompt"))


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = options(__doc__, "--data", "--work", "--json")
    parser.add_argument(
        "--model", help="provider:model or cross-encoder:NAME; default: figures alone"
    )
    parser.add_argument("--pairs", type=int, metavar="N", help="pairs of each label; default: all")
    parser.add_argument(
        "--batch", choices=("export", "import"), help="write requests, or read results"
    )
    parser.add_argument(
        "--replies", type=Path, metavar="FILE", help="with --batch import: the results"
    )
    given = parser.parse_args()
    if given.batch and not (given.model and given.work):
        parser.error("--batch needs --model and --work")
    if (given.batch == "import") != bool(given.replies):
        parser.error("--batch import and --replies belong together")
    batch = None
    if given.batch:
        given.work.mkdir(parents=True, exist_ok=True)
        batch = Batch(given.work)
        if given.replies:
            print(batch.import_file(given.replies))
    budget = CallBudget(max_retries=0 if batch else 4)
    pairs = read_pairs(given.data, given.pairs)
    verifier = open_verifier(given, batch)
    found = asyncio.run(verify_all(verifier, pairs, budget))
    if batch and (files := batch.export()):
        print("Send as a batch:", *files)
    if given.batch == "export":
        return
    rows, used = measure(pairs, found), cost(budget)
    show(f"Claims of SciFact, judged by {verifier.name}", rows)
    show("Used", [used], form=",.0f")
    write(given.json, {"judge": verifier.name, "rows": rows, "used": used})


if __name__ == "__main__":
    main()
