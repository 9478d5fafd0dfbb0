"""Filters: each passage of a result matches them, and k come back if there are k."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.chains.passage_reader import PassageReader
from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.filters import Filters, one_of
from briefcontext.knowledge.store.table import Table
from briefcontext.retrievers.knowledge_base import DenseRetriever, SearchMethod, retriever_over
from briefcontext.retrievers.ranking_retriever import RankingRetriever
from tests.command_line import command_line
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, record, source

QUESTION = "Which drug helps?"
TYPES = ("Randomized Controlled Trial", "Review")
JOURNALS = {"Bees (London)": "Bees", "Women's health": "Women Health"}
LANGUAGES = {"eng": "en", "fre": "fr"}
RECORDS = [
    record(
        f"{number}",
        f"The drug {number} helps.",
        **{"year": year} if year else {},
        publication_types="; ".join(types),
        journal=journal,
        journal_abbreviation=JOURNALS[journal],
        mesh=mesh,
        languages=language,
    )
    for number, (year, types, journal, (mesh, language)) in enumerate(
        product(
            (None, 2010, 2015, 2020),
            ((), TYPES[:1], TYPES),
            JOURNALS,
            (("Asthma", "eng"), ("*Gout/drug therapy; Humans", "fre")),
        )
    )
]
BY_ID = {str(document.id): document.metadata for document in RECORDS}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp("filtered")
    build(folder, source("a", *RECORDS))
    with KnowledgeBase.open(folder, encoder=HashingEncoder()) as opened:
        yield opened


def fulfilling(filters: Filters) -> set[str]:
    """The ids of the records that fulfil filters, by what their metadata say."""

    def fulfils(metadata: dict[str, Any]) -> bool:
        year = metadata.get("year")
        dated = not (filters.first_year or filters.last_year) or (
            year is not None and (filters.first_year or year) <= year <= (filters.last_year or year)
        )
        said = {
            "publication_types": metadata["publication_types"].split("; "),
            "journals": [metadata["journal"], metadata["journal_abbreviation"]],
            "mesh": ["Gout", "Humans"] if "Gout" in metadata["mesh"] else ["Asthma"],
            "languages": [metadata["languages"], LANGUAGES[metadata["languages"]]],
        }
        wanted = {name: {value.casefold() for value in getattr(filters, name)} for name in said}
        return dated and all(
            not wanted[name] or wanted[name] & {v.casefold() for v in said[name]} for name in said
        )

    return {id for id, metadata in BY_ID.items() if fulfils(metadata)}


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2).map(tuple)


years = st.none() | st.sampled_from([2009, 2010, 2012, 2015, 2020, 2021])
any_filters = st.builds(
    Filters,
    first_year=years,
    last_year=years,
    publication_types=some(*TYPES, "review", "Letter"),
    journals=some(*JOURNALS, *JOURNALS.values(), "bees"),
    mesh=some("Asthma", "gout", "Humans"),
    languages=some(*LANGUAGES, *LANGUAGES.values(), "ENG"),
)


def found(documents: list[Document]) -> list[str]:
    return [str(document.id) for document in documents]


@given(filters=any_filters, k=st.integers(1, len(RECORDS)))
@settings(max_examples=40, deadline=None)
def test_a_filtered_search_returns_k_passages_that_match(
    base: KnowledgeBase, filters: Filters, k: int
) -> None:
    fulfil = fulfilling(filters)
    for search in (base.search, base.search_terms):
        ids = found(search(QUESTION, k, filters))
        assert set(ids) <= fulfil
        assert len(ids) == min(k, len(fulfil))


@given(filters=any_filters)
@settings(max_examples=20, deadline=None)
def test_filters_change_no_score_and_no_order(base: KnowledgeBase, filters: Filters) -> None:
    for search in (base.search, base.search_terms):
        everything = search(QUESTION, len(RECORDS))
        fulfil = set(found(search(QUESTION, len(RECORDS), filters)))
        kept = [
            (document.id, document.metadata["score"])
            for document in everything
            if document.id in fulfil
        ]
        filtered = search(QUESTION, len(RECORDS), filters)
        assert [(document.id, document.metadata["score"]) for document in filtered] == kept


Make = Callable[..., RankingRetriever]
BY_FILTERS: dict[str, Callable[[KnowledgeBase], Make]] = {
    **{
        method: lambda base, method=method: _with(retriever_over(base, method))
        for method in get_args(SearchMethod)
    },
    "reranked": lambda base: _with(retriever_over(base, "hybrid", LongestFirst())),
}


class LongestFirst:
    """Prefers long passages."""

    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return np.array([len(text) for _, text in passages], np.float32)


def _with(retriever: RankingRetriever) -> Make:
    return lambda **fields: retriever.model_copy(update=fields)


@pytest.mark.parametrize("name", list(BY_FILTERS))
async def test_filters_of_a_call_replace_those_of_the_retriever(
    name: str, base: KnowledgeBase
) -> None:
    make = BY_FILTERS[name](base)
    trials, recent = Filters(publication_types=TYPES[:1]), Filters(first_year=2020)
    assert set(found(make().invoke(QUESTION, k=len(RECORDS), filters=trials))) == fulfilling(trials)
    assert set(found(await make().ainvoke(QUESTION, k=len(RECORDS), filters=trials))) == fulfilling(
        trials
    )
    assert set(found(make(filters=trials, k=len(RECORDS)).invoke(QUESTION))) == fulfilling(trials)
    assert set(
        found(make(filters=trials).invoke(QUESTION, k=len(RECORDS), filters=recent))
    ) == fulfilling(recent)
    assert len(make(filters=recent).invoke(QUESTION, k=9)) == 9


def _run(base: KnowledgeBase, **settings: Any) -> Any:
    built = build_graph(reader=PassageReader(), retriever=DenseRetriever(knowledge_base=base))
    updates = built.stream(
        {"question": QUESTION}, context=Settings(**settings), stream_mode="updates"
    )
    return {
        name: value
        for update in updates
        for part in update.values()
        for name, value in (part or {}).items()
    }


def test_the_graph_reads_only_passages_that_match_the_filters(base: KnowledgeBase) -> None:
    state = _run(base, years="2015-", publication_types=["review"], languages=["en"], top_k=3)
    assert len(state["ranking"]) == 3
    assert set(found(state["ranking"])) <= fulfilling(
        Filters(2015, None, ("review",), languages=("en",))
    )


@pytest.mark.parametrize("years", ["-", "2020-2010", [2015]])
def test_years_that_are_none_are_refused_by_name(years: object) -> None:
    said = re.escape(f"years = {years!r}: ") if isinstance(years, str) else "years"
    with pytest.raises(InputError, match=said) as raised:
        Settings(years=years)
    assert "valid integer" not in str(raised.value)
    with pytest.raises(InputError, match="publication_types"):
        Settings(publication_types=[" "])


ROWS = [
    {
        "id": "t",
        "text": "Honey eased coughs.",
        "year": 2016,
        "publication_types": ["Randomized Controlled Trial"],
    },
    {
        "id": "r",
        "text": "Honey for coughs, reviewed.",
        "year": 2020,
        "publication_types": "Review",
        "mesh": ["Honey"],
    },
    {"id": "o", "text": "Honey and coughs.", "year": 2001, "language": "fre", "journal": "Bees"},
]


@pytest.mark.slow
def test_the_command_line_asks_and_searches_by_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, folder = command_line(monkeypatch, capsys), str(tmp_path / "kb")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    assert run("index", str(rows), "--kb", folder, "--encoder", "minilm")[0] == 0
    for options, ids in {
        ("--years", "2015-"): {"t", "r"},
        ("--type", "randomized controlled trial"): {"t"},
        ("--journal", "bees"): {"o"},
        ("--mesh", "Honey"): {"r"},
        ("--language", "fr"): {"o"},
    }.items():
        for method in ("dense", "bm25"):
            searched = ("kb", "search", folder, "Does honey ease coughs?", "--method", method)
            code, out, _ = run(*searched, *options, "--json")
            assert (code, {passage["id"] for passage in json.loads(out)}) == (0, ids)
        code, out, _ = run("ask", "--kb", folder, "Does honey ease coughs?", *options, "--json")
        assert code == 0
        assert set() < {citation["source_id"] for citation in json.loads(out)["citations"]} <= ids
    code, out, _ = run("ask", "--kb", folder, "Does honey ease coughs?", "--years", "1999")
    assert code == 0
    assert "fulfils the filters (year 1999)" in " ".join(out.split())


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=4))
def test_any_value_is_compared_as_it_is(base: KnowledgeBase, values: list[str]) -> None:
    table = Table(str(base.path / "passages.lance"))
    held = {"7", "11"}
    assert table.count(one_of("id", [*values, *held])) == len(held | (set(BY_ID) & set(values)))
