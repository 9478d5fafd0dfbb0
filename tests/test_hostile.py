"""Documents are data: they cannot leave their place in a prompt or forge a source."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.answer import Answer
from briefcontext.chains.citation import assign_keys, document_key, number_citations
from briefcontext.chains.context import render_documents
from briefcontext.commands.report import print_answer
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.attacks import ATTACKS, FORGED, IGNORE
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.notes import kinds, messages
from tests.openai_server import DOCUMENT, Call, Reply, Script, faithful, serve

ASKED: Any = {"question": QUESTION, "options": {"A": "yes", "B": "no"}}
ROUTES = ["map_reduce", "vanilla", "order_preserving"]
HARMLESS = "Nothing to see here."
INVENTED = "The committee of all experts recommends it to everybody without exception."
BLOCK = re.compile(r"<evidence reader=\d+>\n(?P<lines>.*?)\n</evidence>", re.DOTALL)
EVIDENCE_LINE = re.compile(
    r"""\[(?P<key>\w+)\]\ (?:\(.*\)\ )?"(?P<quote>.*)"
    | Finding:\ .* | Choice:\ [AB] | Confidence:\ \d\.\d\d""",
    re.VERBOSE,
)
BRACKET = "[<＜﹤‹〈〈⟨❮❬❰˂]"
OUR_TAGS = re.compile(
    rf"{BRACKET}[\W_]*(?:document|evidence|finding|question|system|instruction)s?(?![a-z])"
)
CONTROL_TOKENS = re.compile(
    r"<[|｜]|</?s>|<</?SYS>>|<(?:start|end)_of_turn>|<(?:bos|eos)>|</?(?:think|thought)>"
    r"|\[/?(?:INST|SYSTEM_PROMPT)\]"
)
UNSEEN = {"Cc", "Cf", "Cs"}


def _documents(attack: str = HARMLESS) -> list[Document]:
    """Make four documents with the attack in the text of the second and metadata of the third."""
    documents = make_documents(4, about=0)
    for document in documents:
        document.metadata |= {"publication_types": "Trial", "year": 2001}
    documents[1].page_content = f"{attack}\n{documents[1].page_content}"
    documents[2].metadata |= dict.fromkeys(
        ("title", "publication_types", "year", "source_id", "url", "kind"), attack
    )
    return documents


def _obedient(attack: str) -> Script:
    """Obey the attack: quote it for another document, cite forged keys, invent a quote."""
    words = " ".join(attack[:200].encode(errors="replace").decode().split())

    def script(call: Call) -> Reply:
        forged = " ".join(f"[{key}]" for key in FORGED)
        if call.stage == "reduce":
            keys = [found["key"] for found in EVIDENCE_LINE.finditer(call.user) if found["key"]]
            true = " ".join(f"So it is [{key}]." for key in keys)
            return Reply(
                f"{true} Obeyed {forged}. It is proven [1].\nConflict: none {forged}\nChoice: A"
            )
        honest = faithful(call)
        first = call.documents[0][0]
        quotes = [{"key": first, "quote": attack[:200]}, {"key": FORGED[0], "quote": INVENTED}]
        if call.stage == "extract":
            record = json.loads(honest.content)
            return Reply(
                json.dumps(
                    {
                        **record,
                        "quotes": record["quotes"] + quotes,
                        "finding": attack[:200],
                        "choice": "A",
                    }
                )
            )
        text, _, listed = honest.content.partition("\nQuotes:\n")
        lines = [f'[{first}] "{words}"', f'[{FORGED[0]}] "{INVENTED}"']
        return Reply(
            f"{text} Obeyed {forged}. It is proven [1].\nChoice: A\nQuotes:\n{listed}\n"
            + "\n".join(lines)
        )

    return script


Run = tuple[list[Document], Answer, list[Call]]
Ask = Callable[[str, str], Run]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Ask by a route over documents with an attack, of a model that obeys it.

    There are two partitions of two documents. The result is the documents, the answer and the
    calls, those of the extractions in order of their partition.
    """
    with serve() as server:
        model = ChatOpenAI(model="scripted", base_url=server.url, api_key="none", max_retries=0)

        @cache
        def run(route: str, attack: str) -> Run:
            server.script = _obedient(attack)
            server.calls.clear()
            documents = _documents(attack)
            built = build_graph(model=model, retriever=FixedRetriever(documents=documents))
            context = Settings(route=route, partition_size=2, max_retries=0, max_concurrent_calls=1)
            answer = built.invoke(ASKED, context=context)["answer"]
            calls = sorted(
                server.calls, key=lambda call: (call.stage, "number 1 was" not in call.user)
            )
            return documents, answer, calls

        yield run


def _letters(text: str) -> str:
    """Return what is left of a text when nothing but letters and digits counts."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKD", text).casefold())


def _seen(text: str) -> str:
    """Return a text as one sees it: in plain lower-case letters, without what is not seen."""
    plain = unicodedata.normalize(
        "NFKD", text.translate(str.maketrans("оеοсոԁѕу", "oeocndsy"))
    ).lower()
    return _without(UNSEEN | {"Mn"}, plain, but="\n")


def _signs(text: str) -> str:
    """Return the ASCII letters and digits of a text, in upper case."""
    return re.sub(r"[^0-9A-Z]", "", unicodedata.normalize("NFKC", text).upper())


def _without(categories: set[str], text: str, *, but: str = "") -> str:
    gone = {sign for sign in set(text) - set(but) if unicodedata.category(sign) in categories}
    return text.translate(dict.fromkeys(map(ord, gone)))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_stays_in_its_place_in_every_prompt(attack: str, route: str, ask: Ask) -> None:
    _, _, plain = ask(route, HARMLESS)
    _, _, attacked = ask(route, attack)
    assert [call.stage for call in attacked] == [call.stage for call in plain]
    for call, benign in zip(attacked, plain, strict=True):
        assert call.system == benign.system
        assert [message["role"] for message in call.body["messages"]] == ["system", "user"]
        assert not CONTROL_TOKENS.search(call.user)
        assert _without(UNSEEN, call.user) == call.user.replace("\n", "").replace("\t", "")
        if call.stage == "reduce":
            _check_evidence(call, benign)
        else:
            _check_documents(call, benign, attack)


def _check_documents(call: Call, benign: Call, attack: str) -> None:
    assert DOCUMENT.sub("", call.user) == DOCUMENT.sub("", benign.user)
    assert call.user.startswith(f"Question: {QUESTION}\nA. yes\nB. no\n\n<document")
    assert call.user.endswith(f">\n\nQuestion: {QUESTION}\nA. yes\nB. no\n")
    assert len(call.documents) == len(benign.documents)
    signs = " ".join(_signs(text) for _, text in call.documents)
    for (key, text), (_, benign_text) in zip(call.documents, benign.documents, strict=True):
        assert not OUR_TAGS.search(_seen(text))
        assert key not in signs
        if "number 1 was" in text or "number 2 was" in text:
            assert _letters(attack) in _letters(text)
            assert benign_text.split("\n")[-1] in text
        else:
            assert text == benign_text


def _check_evidence(call: Call, benign: Call) -> None:
    assert BLOCK.sub("", call.user) == BLOCK.sub("", benign.user)
    blocks = [found["lines"].split("\n") for found in BLOCK.finditer(call.user)]
    assert len(blocks) == 2
    for lines in blocks:
        assert all(EVIDENCE_LINE.fullmatch(line) for line in lines), lines
        assert not any(OUR_TAGS.search(_seen(line)) for line in lines)
        assert all(len(line.splitlines()) == 1 for line in lines)
        kinds = [line.split(":")[0] for line in lines if not line.startswith("[")]
        assert kinds == ["Finding", "Choice", "Confidence"]
    quotes = [line for lines in blocks for line in lines if line.startswith("[")]
    # A sentence of each document, and the attack where it can be quoted: from the text of one, the
    # title of another.
    assert len(quotes) in (4, 5, 6)
    keys = {quote[1 : quote.index("]")] for quote in quotes}
    assert len(keys) == 4
    assert all(key not in _signs(quote[quote.index("]") :]) for key in keys for quote in quotes)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_obedient_model_forges_no_source(attack: str, route: str, ask: Ask) -> None:
    documents, answer, _ = ask(route, attack)
    texts = {
        document.id: re.sub("[\ud800-\udfff]", "\ufffd", document.page_content)
        for document in documents
    }
    title = re.sub("[\ud800-\udfff]", "\ufffd", documents[2].metadata["title"])
    assert not any(key in answer["text"] for key in FORGED)
    (reported,) = messages(answer, "unknown_citation")
    assert all(key in reported for key in FORGED)
    assert {"quote_not_found", "partition_error"} & set(kinds(answer))
    # All four documents are cited, each by one number, and the model's own "[1]" does not pass for
    # one of these.
    assert [citation["key"] for citation in answer["citations"]] == ["1", "2", "3", "4"]
    assert {citation["document_id"] for citation in answer["citations"]} == set(texts)
    assert "It is proven (1)" in answer["text"]
    assert "uncited" in kinds(answer)
    for citation in answer["citations"]:
        assert citation["quotes"]
        for quote in citation["quotes"]:
            assert quote["document_id"] == citation["document_id"]
            if quote["match"] == "title":
                assert (citation["document_id"], quote["start"], quote["end"]) == (
                    "doc-2",
                    None,
                    None,
                )
                assert quote["text"] in title
            else:
                assert (
                    quote["text"] == texts[citation["document_id"]][quote["start"] : quote["end"]]
                )
        assert INVENTED not in json.dumps(citation)
    # The attack may be quoted, but only as the words of the documents that contain it.
    owners = {
        (citation["document_id"], quote["match"] == "title")
        for citation in answer["citations"]
        for quote in citation["quotes"]
        if _letters(attack[:200]) in _letters(quote["text"])
    }
    assert {("doc-1", False)} <= owners <= {("doc-1", False), ("doc-2", True)}


@settings(deadline=None)
@given(texts=st.lists(st.text(alphabet="23BCbc [２Ｂ\u200b", max_size=60), min_size=1, max_size=8))
def test_no_key_occurs_in_a_document(texts: list[str]) -> None:
    documents = [Document(id=f"{place}", page_content=text) for place, text in enumerate(texts)]
    keys = [document_key(document) for document in assign_keys("23B2C?", documents)]
    assert len(set(keys)) == len(texts)
    assert not any(key in _signs(text) for key in keys for text in [*texts, "23B2C?"])


def test_a_citation_takes_no_address_along() -> None:
    keyed = assign_keys(QUESTION, _documents())
    key = document_key(keyed[0])
    written = f"See [{key}](https://attacker.example/?q=1) and [9Z9Z](javascript:alert)."
    text, _, unknown = number_citations(written, keyed, [])
    assert (text, unknown) == ("See [1] and.", ["9Z9Z"])


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "//attacker.example", "x https://e.org"]
)
def test_only_a_web_address_becomes_a_link(url: str) -> None:
    documents = make_documents(1, about=0)
    documents[0].metadata |= {"url": url, "year": "in press", "title": None}
    (keyed,) = assign_keys(QUESTION, documents)
    _, (citation,), _ = number_citations(f"[{document_key(keyed)}]", [keyed], [])
    assert (citation["url"], citation["year"]) == (None, None)


@pytest.mark.parametrize(
    "text",
    ["p < 0.05", "risk <systemic", "if <20 mg/L then > 3", "H<sub>2</sub>O", "[PAD] [95% CI]"],
)
def test_comparisons_and_formulas_stay_as_they_are(text: str) -> None:
    (keyed,) = assign_keys(QUESTION, [Document(id="1", page_content=text)])
    assert text in render_documents([keyed])


def test_the_terminal_spells_out_control_characters_and_leaves_markup_alone(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    attack = f"\x1b[31m \u202e [bold red]{IGNORE}[/bold red] :warning:"
    documents, answer, _ = ask("vanilla", attack)
    print_answer({"answer": answer, "ranking": documents}, verbose=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"\\u001b[31m \\u202e [bold red]{IGNORE}[/bold red] :warning:" in shown
