"""Documents that the caller brings: the graph answers over them, in their order, and searches nothing."""

import re
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer

MAPPED = Settings(route="map_reduce", partition_size=2, max_retries=0)


def asked(documents: Any, **more: Any) -> Any:
    return {"question": QUESTION, "documents": documents, **more}


def shown(call: Call) -> list[str]:
    """The numbers of the documents that a call reads."""
    return [re.search(r"(?:group|number) (\d)", text)[1] for _, text in call.documents]  # type: ignore[index]


class UnusedRetriever(FixedRetriever):
    """Fails when it is asked."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        raise AssertionError("the retriever was asked")


@pytest.fixture
def built(chat_model: ChatOpenAI) -> Any:
    return build_graph(model=chat_model, retriever=UnusedRetriever(documents=[]))


def test_they_are_read_in_their_order_with_keys_and_ranks(built: Any, server: OpenAIServer) -> None:
    documents = list(reversed(make_documents(5, about=3)))
    state = built.invoke(asked(documents), context=MAPPED, output_keys=["ranking", "answer"])
    mapped = sorted(shown(call) for call in server.calls if call.stage == "extract")
    assert mapped == [["0"], ["2", "1"], ["4", "3"]]
    assert [document.metadata["rank"] for document in state["ranking"]] == [1, 2, 3, 4, 5]
    assert all(document.metadata["key"] for document in state["ranking"])
    for citation in state["answer"]["citations"]:
        place = int(citation["document_id"].removeprefix("doc-"))
        assert citation["source_id"] == f"src-{place}"
        assert citation["quote"] in documents[4 - place].page_content


async def test_they_may_be_mappings_as_json_has_them(built: Any) -> None:
    documents = [
        {"page_content": document.page_content, "metadata": document.metadata, "id": document.id}
        for document in make_documents(3, about=0)
    ]
    answer = (await built.ainvoke(asked(documents), context=MAPPED))["answer"]
    assert answer["citations"][0]["document_id"] == "doc-0"
    bare = (
        await built.ainvoke(
            asked([{"page_content": "Aspirin lowers the risk of stroke."}]), context=MAPPED
        )
    )["answer"]
    assert bare["citations"][0]["quote"] == "Aspirin lowers the risk of stroke."


def test_all_are_read_whatever_number_would_be_retrieved(built: Any, server: OpenAIServer) -> None:
    built.invoke(asked(make_documents(9, about=0)), context=Settings(route="vanilla", top_k=4))
    assert len(server.calls[0].documents) == 9


def test_the_preflight_compares_their_order_with_bm25s(
    built: Any, disagreeing: FixedRetriever
) -> None:
    preflight = built.invoke(asked(disagreeing.documents))["answer"]["preflight"]
    assert preflight["dense_top"] == ["doc-0", "doc-1", "doc-2"]
    assert preflight["bm25_top"] == ["doc-8", "doc-9", "doc-10"]
    assert preflight["iou"] == 0


def test_retracted_ones_are_left_out_and_counted(built: Any) -> None:
    documents = make_documents(4, about=0)
    documents[2].metadata["retracted"] = True
    answer = built.invoke(asked(documents), context=MAPPED)["answer"]
    assert messages(answer, "retracted_left_out") == ["Retracted articles were left out: src-2."]
    gone = built.invoke(asked(documents[2:3]))["answer"]
    assert gone["text"].startswith(
        "All documents given with this question are retracted articles (1)"
    )


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        *(
            ({"retracted": said, "expression_of_concern": said}, True)
            for said in ("False", "no", float("nan"), 0, "")
        ),
        *(({"retracted": said}, False) for said in ("True", "yes", 1, "2020-05-01")),
        ({"publication_types": ["Journal Article", "Retracted Publication"]}, False),
        ({"title": "RETRACTED: Aspirin and stroke", "retracted": "False"}, False),
        (
            {
                "publication_types": "Retraction of Publication",
                "title": "Retracted words in trials",
            },
            True,
        ),
    ],
)
def test_whether_they_are_retracted_is_told_as_tables_and_pubmed_tell_it(
    metadata: dict[str, Any], kept: bool, built: Any
) -> None:
    answer = built.invoke(
        asked([{"page_content": "Aspirin lowers the risk of stroke.", "metadata": metadata}])
    )["answer"]
    assert answer["abstained"] is not kept
    assert [citation["notes"] for citation in answer["citations"]] == (
        [["Retraction of Publication"] * ("title" in metadata)] if kept else []
    )


def test_lists_in_their_metadata_are_written_as_those_of_a_knowledge_base(built: Any) -> None:
    metadata = {
        "title": "Aspirin",
        "authors": ["Smith, JA", "Doe, B"],
        "publication_types": ["Journal Article", "Multicenter Study"],
        "mesh": ("Humans", "Cohort Studies"),
        "tags": ["mine"],
    }
    documents = [
        Document(id="7", page_content="Aspirin lowers the risk of stroke.", metadata=metadata)
    ]
    state = built.invoke(asked(documents), output_keys=["ranking", "answer"])
    (citation,) = state["answer"]["citations"]
    assert citation["publication_types"] == "Journal Article; Multicenter Study"
    assert citation["notes"] == ["cohort study", "humans"]
    assert state["answer"]["references"][0]["citation"] == "Smith JA, Doe B. Aspirin. 7"
    assert state["ranking"][0].metadata["tags"] == ["mine"]


def test_none_of_them_is_nothing_to_answer_from_and_not_a_search(
    built: Any, server: OpenAIServer
) -> None:
    answer = built.invoke(asked([]))["answer"]
    assert (answer["route"], answer["abstained"]) == ("abstain", True)
    assert (
        answer["text"]
        == "No document was given with this question. There is nothing to answer from."
    )
    assert server.calls == []


def test_without_them_the_next_question_of_a_thread_retrieves(chat_model: ChatOpenAI) -> None:
    retriever = FixedRetriever(documents=make_documents(8, about=0))
    built = build_graph(model=chat_model, retriever=retriever, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "one"}}
    documents = [Document(id="own", page_content="Aspirin lowers the risk of stroke.")]
    own = built.invoke(asked(documents), thread)["answer"]
    found = built.invoke(asked(None), thread)["answer"]
    assert own["preflight"]["dense_top"] == ["own"]
    assert found["preflight"]["dense_top"] == ["doc-0", "doc-1", "doc-2"]


def test_no_knowledge_base_is_opened_for_them(chat_model: ChatOpenAI) -> None:
    settings = Settings(knowledge_base="there-is-none", route="vanilla")
    answer = build_graph(model=chat_model).invoke(
        asked(make_documents(3, about=0)), context=settings
    )["answer"]
    assert answer["route"] == "vanilla"


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ("Aspirin helps.", "must be a list of documents, best first, not str"),
        ({"page_content": "Aspirin helps."}, "not dict"),
        (["Aspirin helps."], "Document 1 cannot be used"),
        (
            [{"page_content": "Aspirin helps."}, {"text": "x"}],
            "Document 2 cannot be used: it needs a text",
        ),
        ([{"page_content": 7}], "Document 1 cannot be used"),
        ([{"page_content": "x", "metadata": "y"}], "Document 1 cannot be used"),
        (
            [Document(page_content="Aspirin helps.").to_json()],
            r"model_dump\(\) gives them \(not to_json",
        ),
        ([Document(page_content=" \n")], "a text that is not blank"),
        ([Document(page_content="x")] * 1025, "1,025 documents are given, and at most 1,024"),
    ],
)
def test_what_is_no_list_of_documents_is_refused(built: Any, documents: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        built.invoke(asked(documents))


def test_filters_are_for_what_is_retrieved(built: Any) -> None:
    with pytest.raises(InputError, match="are for what is retrieved"):
        built.invoke(asked(make_documents(2, about=0)), context=Settings(years=(2020, None)))
