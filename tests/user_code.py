"""The code of the README, type-checked by `make type`."""

from collections.abc import Sequence
from pathlib import Path
from typing import assert_type

import numpy as np
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from numpy.typing import NDArray

from briefcontext import (
    Answer,
    BM25Retriever,
    BriefContextCompressor,
    BriefContextMiddleware,
    DenseRetriever,
    HybridRetriever,
    KnowledgeBase,
    RerankingRetriever,
    Settings,
    WrappedRetriever,
    briefcontext_tool,
    build_graph,
    graph,
)
from briefcontext.graphs.state import Input
from briefcontext.knowledge import Filters


def settings(folder: Path) -> list[Settings]:
    return [
        Settings(years="2015-", publication_types=["randomized trial"], languages=("eng",)),
        Settings(years=(2015, None), journals=["BMJ"], mesh=[]),
        Settings(years=[2015, 2020], knowledge_base=str(folder)),
        Settings(
            model="openai:gpt-4o-mini", model_arguments={"top_p": 0.9}, route="map_reduce", top_k=8
        ),
    ]


def ask() -> str:
    result = graph.invoke({"question": "Is it so?"}, context={"top_k": 8, "years": "2015-"})
    return str(result["answer"]["text"])


async def ask_own_graph(store: InMemoryVectorStore, documents: list[Document]) -> list[object]:
    mine = build_graph(model="openai:gpt-4o-mini", retriever=store)
    asked: Input = {"question": "Is it so?", "options": {"A": "yes", "B": "no"}}
    assert_type(mine.invoke(asked, context=Settings(top_k=8))["answer"], Answer)
    mine.invoke(asked, top_k=8)  # type: ignore[call-arg]
    await mine.ainvoke({"question": "Is it so?", "documents": documents}, context={"top_k": 8})
    mine.batch(
        [{"question": "Is it so?"}, {"question": "And in children?", "earlier": ["Is it so?"]}]
    )
    parts: list[object] = list(
        graph.stream(asked, context={"route": "vanilla"}, stream_mode=["custom", "messages"])
    )
    return parts + [
        event async for event in graph.astream(asked, stream_mode="custom", context={"top_k": 4})
    ]


class Shortest:
    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return np.array([-len(text) for _, text in passages], dtype=np.float32)


def retrieve(base: KnowledgeBase, folder: Path, store: InMemoryVectorStore) -> list[Document]:
    dense = [DenseRetriever(knowledge_base=given) for given in ("demo", folder, base)]
    lexical = BM25Retriever(knowledge_base="demo", k=4, filters=Filters(first_year=2015))
    own = WrappedRetriever(retriever=store.as_retriever())
    fused = HybridRetriever(retrievers=[*dense, lexical, own, store.as_retriever(), store])
    return RerankingRetriever(retriever=fused, scorer=Shortest()).invoke(
        "metformin", k=3, filters=Filters(first_year=2015)
    )


tool = briefcontext_tool(settings={"top_k": 8})


def agent_of_the_readme() -> object:
    search = create_retriever_tool(
        DenseRetriever("demo"), "search", "Finds passages.", response_format="content_and_artifact"
    )
    middleware = [BriefContextMiddleware(model="openai:gpt-4o-mini")]
    agent = create_agent("openai:gpt-4o-mini", [search], middleware=middleware)
    return agent


def agent(store: InMemoryVectorStore, chat: ChatOpenAI) -> object:
    search = create_retriever_tool(
        store.as_retriever(), "search", "Finds.", response_format="content_and_artifact"
    )
    middleware = [
        BriefContextMiddleware(model="openai:gpt-4o-mini", tools=["search"]),
        BriefContextMiddleware(chat, {"papers": "\n\n"}, Settings(partition_size=8)),
    ]
    return create_agent("openai:gpt-4o-mini", [search, tool], middleware=middleware)


async def compress(chat: ChatOpenAI, documents: list[Document]) -> Sequence[Document]:
    compressor = BriefContextCompressor(chat, settings={"partition_size": 8})
    return await compressor.acompress_documents(documents, "Is it so?")
