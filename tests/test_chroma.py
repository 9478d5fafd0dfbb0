"""A persistent Chroma collection, through LangChain, as the graph's retriever."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_openai import ChatOpenAI
from langchain_text_splitters import RecursiveCharacterTextSplitter

from briefcontext import Settings, build_graph
from tests.hashing_encoder import HashingEncoder
from tests.openai_server import OpenAIServer

pytestmark = pytest.mark.slow

chroma = pytest.importorskip("langchain_chroma", reason="langchain-chroma is not installed")

pytestmark = pytest.mark.filterwarnings(
    "ignore:.langchain-community. is being sunset:DeprecationWarning"
)

TEXTS = {
    "aspirin": "Aspirin lowers the risk of stroke. It can cause bleeding in the stomach.",
    "warfarin": "Warfarin prevents clots in atrial fibrillation. It needs regular blood tests.",
    "vitamins": "Vitamins were studied among healthy volunteers. No effect was found.",
    "statins": "Statins lower cholesterol. Muscle pain is a common complaint.",
    "insulin": "Insulin lowers glucose in the blood. It is injected under the skin.",
}
QUESTION = "Does aspirin lower the risk of stroke?"


class HashingEmbeddings(Embeddings):
    """The tests' encoder as LangChain's embeddings."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [
            list(map(float, row))
            for row in HashingEncoder().encode_passages([("", text) for text in texts])
        ]

    def embed_query(self, text: str) -> list[float]:
        return list(map(float, HashingEncoder().encode_queries([text])[0]))


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    """Open a collection of text files that were loaded, split and written by another client."""
    from langchain_community.document_loaders import DirectoryLoader, TextLoader

    folder = tmp_path_factory.mktemp("chroma")
    texts = folder / "texts"
    texts.mkdir()
    for name, text in TEXTS.items():
        (texts / f"{name}.txt").write_text(text, encoding="utf-8")
    loaded = DirectoryLoader(
        str(texts), glob="*.txt", loader_cls=TextLoader, loader_kwargs={"encoding": "utf-8"}
    ).load()
    splitter = RecursiveCharacterTextSplitter(chunk_size=50, chunk_overlap=0, add_start_index=True)
    where = str(folder / "collection")
    chroma.Chroma.from_documents(
        splitter.split_documents(loaded),
        HashingEmbeddings(),
        collection_name="texts",
        persist_directory=where,
    )
    return lambda: chroma.Chroma("texts", HashingEmbeddings(), persist_directory=where)


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_an_answer_cites_a_collection_s_chunks_in_their_places(
    collection: Callable[[], Any], chat_model: ChatOpenAI, route: Any
) -> None:
    graph = build_graph(retriever=collection(), reader=chat_model)
    result = graph.invoke({"question": QUESTION}, context=Settings(top_k=6, route=route))
    assert len(result["answer"]["documents"]) == 6
    assert Path(result["answer"]["documents"][0]["source_id"]).name == "aspirin.txt"
    assert result["answer"]["citations"]
    for citation in result["answer"]["citations"]:
        text = TEXTS[Path(citation["source_id"]).stem]
        assert text[citation["source_start"] : citation["source_end"]] == citation["quote"]


def test_chunks_of_one_file_are_read_in_the_order_of_the_file(
    collection: Callable[[], Any], chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    graph = build_graph(retriever=collection(), reader=chat_model)
    graph.invoke({"question": QUESTION}, context=Settings(top_k=16, route="order_preserving"))
    (call, *_) = server.all_calls
    shown = [text for _, text in call.documents if "spirin" in text or "bleeding" in text]
    assert ["Aspirin" in text for text in shown] == [True, False]
