"""Accuracy of an agent by the position of the key document: retriever tool, middleware, compressor.

The agent's model and the reading model are the simulated reader of the tests, which overlooks
documents in the middle with known probabilities. Its answers say nothing about a language model.
The documents are generated: one has the answer, and the others share a drug or an outcome with
the question. Their order is random.

    python benchmarks/agents.py [--questions 100] [--documents 16] [--json FILE]
"""

import asyncio
import json
import random
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun, UsageMetadataCallbackHandler
from langchain_core.documents import Document
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from parts.report import Row, options, show, write

from briefcontext import BriefContextCompressor, BriefContextMiddleware

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.openai_server import DOCUMENT, Call, Reply, serve
from tests.simulated_reader import LOST_IN_THE_MIDDLE, MODEL, Known, SimulatedReader

DRUGS = ("aboprine", "belofen", "cadimab", "dorasol", "ebitane", "fenalol", "gorivir", "hesitil")
OUTCOMES = ("stroke", "migraine", "falls", "fracture", "asthma", "eczema", "anaemia", "delirium")
ARMS: list[tuple[str, str, int]] = [("retriever tool", "", 0)]
ARMS += [(arm, "auto", size) for size in (4, 2, 1) for arm in ("middleware", "compressor")]
ARMS += [("middleware", "map_reduce", 1)]
"""Agents, their routes, and the number of documents in a partition."""
PROMPT = PromptTemplate.from_template('<document key="{name}">\n{page_content}\n</document>')
QUOTE = re.compile(r'^- "(.*)" \([^()]*\)$', re.MULTILINE)
AT_ONCE = 8


class Shrinking(SimulatedReader):
    """Overlooks in proportion to the number of other documents, and a single document never."""

    whole = 15
    """Other documents at which the table holds."""

    def overlooks(self, place: float, others: int) -> float:
        """Return the probability of overlooking a document at a place among others."""
        return super().overlooks(place, others) * min(1.0, others / self.whole)


class Fixed(BaseRetriever):
    """Returns the documents of each question, in their order."""

    by_question: dict[str, list[Document]]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.by_question[query]


def known_questions(count: int) -> list[Known]:
    """Return generated questions, their answers, and the words of their key documents."""
    pairs = random.Random(0).choices(list(product(DRUGS, OUTCOMES)), k=count)
    return [
        Known(
            question=f"Does {drug} prevent {outcome} in ward {number}?",
            options={},
            answer=f"By a share of {number} in a thousand",
            key_words=[f"prevented {outcome} in ward {number}"],
        )
        for number, (drug, outcome) in enumerate(pairs)
    ]


def documents_of(known: Known, count: int, place: int) -> list[Document]:
    """Return the documents of a question, with the key document at a place."""
    draw = random.Random(known.question)
    _, drug, _, outcome, *_, ward = known.question.rstrip("?").split()
    texts = []
    for number in range(count - 1):
        same_drug = draw.random() < 0.5
        other_drug = drug if same_drug else draw.choice(DRUGS)
        other_outcome = draw.choice(OUTCOMES) if same_drug else outcome
        texts.append(
            f"In trial {number}, {other_drug} had no effect on {other_outcome} in home {number}."
            " The participants were followed for a year. Most of them completed the follow-up."
        )
    draw.shuffle(texts)
    key = (
        f"In a trial {drug} {known.key_words[0]}. It did so by a share of {ward} in a thousand."
        " Most of the participants completed the follow-up."
    )
    texts.insert(place, key)
    return [
        Document(id=f"d{number}", page_content=text, metadata={"name": f"d{number}"})
        for number, text in enumerate(texts)
    ]


def answering(reader: SimulatedReader) -> Any:
    """Return the script of a server that is the agent's model and the reading model.

    The agent's model reads a tool's message as the simulated reader reads a prompt: one document
    after another, or one quote after another.
    """

    def script(call: Call) -> Reply:
        if "tools" not in call.body:
            return reader(call)
        messages = call.body["messages"]
        question, message = messages[0]["content"], str(messages[-1]["content"])
        if messages[-1]["role"] != "tool":
            return Reply(arguments=json.dumps({"query": question}))
        items = [match["text"] for match in DOCUMENT.finditer(message)] or QUOTE.findall(message)
        listed = [
            f'<document key="{number}">\n{item}\n</document>' for number, item in enumerate(items)
        ]
        prompt = "\n".join([*listed, f"Question: {question}\n"])
        asked = [{"role": "system", "content": ""}, {"role": "user", "content": prompt}]
        return reader(Call(call.number, {**call.body, "messages": asked}, call.headers))

    return script


async def measure(
    arm: tuple[str, str, int], chat: ChatOpenAI, known: Sequence[Known], count: int, place: int
) -> tuple[float, float]:
    """Return the share of right answers and the tokens of a question."""
    retriever: BaseRetriever = Fixed(
        by_question={each.question: documents_of(each, count, place) for each in known}
    )
    name, route, size = arm
    settings = {"route": route, "partition_size": size} if route else {}
    if name == "compressor":
        retriever = ContextualCompressionRetriever(
            base_compressor=BriefContextCompressor(chat, settings), base_retriever=retriever
        )
    search = create_retriever_tool(
        retriever,
        "search",
        "Finds trials.",
        document_prompt=PROMPT,
        response_format="content_and_artifact",
    )
    middleware = BriefContextMiddleware(chat, settings=settings)
    agent: Any = create_agent(
        chat, [search], middleware=[middleware] if name == "middleware" else []
    )
    usage = UsageMetadataCallbackHandler()
    asked = [{"messages": [("user", each.question)]} for each in known]
    results = await agent.abatch(asked, {"callbacks": [usage], "max_concurrency": AT_ONCE})
    right = [
        each.answer in result["messages"][-1].text
        for each, result in zip(known, results, strict=True)
    ]
    tokens = sum(each["total_tokens"] for each in usage.usage_metadata.values())
    return sum(right) / len(known), tokens / len(known)


def table(bias: type[SimulatedReader], questions: int, count: int) -> list[Row]:
    """Return accuracy by position and tokens of each agent, under one kind of bias."""
    known, last = known_questions(questions), count - 1
    middle = range(last // 2 - 2, last // 2 + 4)
    rows = []
    with serve() as server, asyncio.Runner() as runner:
        server.script = answering(bias(known, LOST_IN_THE_MIDDLE))
        chat = ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", max_retries=0)
        for arm in ARMS:
            results = {
                place: runner.run(measure(arm, chat, known, count, place))
                for place in (0, *middle, last)
            }
            right = {place: share for place, (share, _) in results.items()}
            tokens = sum(tokens for _, tokens in results.values()) / len(results)
            row: Row = dict(zip(("agent", "route", "partition"), arm, strict=True))
            row |= {str(place + 1): share for place, share in right.items()}
            row["middle"] = sum(right[place] for place in middle) / len(middle)
            rows.append(row | {"tokens": round(tokens)})
    return rows


def main() -> None:
    """Print the tables for two kinds of bias."""
    parser = options(__doc__, "--json")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--documents", type=int, default=16)
    asked = parser.parse_args()
    biases = {"the same at any length": SimulatedReader, "shrinks with the length": Shrinking}
    with ProcessPoolExecutor(len(biases)) as pool:
        tables = {
            name: pool.submit(table, bias, asked.questions, asked.documents)
            for name, bias in biases.items()
        }
        figures = {name: submitted.result() for name, submitted in tables.items()}
    for name, rows in figures.items():
        show(f"Right answers by the position of the key document; the bias {name}", rows)
    write(asked.json, figures)


if __name__ == "__main__":
    main()
