"""The page in a real browser: what a person sees, reaches by keyboard, and is safe from."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import rispy
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI
from selenium.webdriver.common.keys import Keys

from briefcontext.commands.serve import open_resources
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge import KnowledgeBase
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.page.app import create_app
from briefcontext.retrievers.knowledge_base import retriever_over
from tests.conftest import QUESTION, FixedRetriever
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, record, source
from tests.openai_server import Call, OpenAIServer, Reply, faithful, verdict
from tests.page_server import Browser, browse, chromium, serve_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="Chromium or its driver is not installed"),
]

FIRST_CHOICE = "Which drug is first choice for type 2 diabetes?"
MIDDLE = "At what CD4+ count is prophylaxis against Pneumocystis pneumonia advised?"
TOKEN = "correct-horse-battery-staple"
ATTACK = (
    '</mark></div></dialog></script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'
    "<svg onload='window.hacked = 1'><iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>"
    "<a href='javascript:window.hacked = 1'>click</a> &lt;b&gt; <style>body{display:none}</style> {{hacked}}"
)

Page = Callable[..., str]


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browse(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(chrome: Browser) -> Iterator[Browser]:
    """The browser, which must have had nothing to complain of and asked no other host."""
    yield chrome
    complaints, hosts = chrome.complaints(), chrome.hosts()
    chrome.reset()
    assert complaints == []
    assert {urlsplit(f"//{host}").hostname for host in hosts} == {"127.0.0.1"}


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The page as `briefcontext serve` opens it."""
    open_resources(Settings())
    with serve_page(create_app()) as address:
        yield address


@pytest.fixture
def page(chat_model: ChatOpenAI) -> Iterator[Page]:
    """Serve a page whose scripted model reads the documents given."""
    with ExitStack() as stack:

        def serve(documents: list[Document], *, token: str | None = None, **settings: Any) -> str:
            graph = build_graph(model=chat_model, retriever=FixedRetriever(documents=documents))
            return stack.enter_context(
                serve_page(
                    create_app(Settings(max_retries=0, **settings), token=token, graph=graph)
                )
            )

        yield serve


def without_group_9(call: Call) -> Reply:
    overloaded = call.stage == "extract" and "group 9" in call.prompt
    return Reply("overloaded", status=503) if overloaded else faithful(call)


def test_the_first_question_is_an_example_and_its_answer_is_cited(
    browser: Browser, demo: str
) -> None:
    browser.open(demo)
    browser.see(".example", FIRST_CHOICE).click()
    browser.see("#status", "citing 4 articles")
    assert browser.see("#result-heading").text == FIRST_CHOICE
    assert "Metformin is the usual first-choice drug" in browser.see("#answer .text").text
    assert len(browser.all(".reference")) == 4
    assert "no model calls" in browser.see(".usage").text
    assert "Not medical advice" in browser.see("footer").text


def test_both_rankings_stand_side_by_side_with_what_they_share(browser: Browser, demo: str) -> None:
    browser.open(demo)
    browser.ask(FIRST_CHOICE)
    browser.see(".references")
    assert browser.texts(".ranking h5") == ["Dense, top 3", "BM25, top 3"]
    assert [len(browser.all(f".ranking:nth-child({side}) li")) for side in (1, 2)] == [3, 3]
    shared = browser.texts(".ranking li.both .document")
    assert shared[:2] == shared[2:]
    assert len(shared) == 4
    left, right = (element.rect for element in browser.all(".ranking"))
    assert left["y"] == right["y"]
    assert "Overlap 0.50" in browser.see(".overlap").text
    assert "Read in one call" in browser.see(".route").text


def test_a_citation_shows_its_passage_with_exactly_the_quotes_marked(
    browser: Browser, demo: str
) -> None:
    browser.open(demo)
    browser.ask(FIRST_CHOICE)
    browser.see(".references")
    for number, cite in enumerate(browser.all("#answer .text .cite")):
        key = cite.text.strip("[]")
        cite.click()
        browser.see("#passage mark.current")
        quotes = browser.texts(f".reference:nth-child({key}) .quote")
        # The passage has them in its order, the reference the best first.
        assert sorted(f"“{mark}”" for mark in browser.texts("#passage mark")) == sorted(quotes), (
            number
        )
        counted = f"{len(quotes)} quote{'s' if len(quotes) > 1 else ''}"
        assert f"{counted}: word for word" in browser.texts("#passage-body > .hint"), number
    last = browser.see(".reference:nth-child(1) blockquote:last-of-type .quote")
    quote = last.text.strip("“”")
    last.click()
    browser.until(
        lambda: browser.see("mark.current").text == quote, "the last quote is the current one"
    )


def test_offsets_count_characters_also_beyond_the_first_plane(browser: Browser, page: Page) -> None:
    text = "\U0001f9e0 Aspirin \U0001f48a\U0001f489 lowers the risk \U00010400 of stroke. After \U0001f480 comes more."
    document = Document(id="astral", page_content=text, metadata={"title": "Beyond"})
    browser.open(page([document], route="vanilla"))
    browser.ask(QUESTION)
    browser.see(".references")
    browser.see("#answer .text .cite").click()
    quote = text.split(". ")[0]
    browser.until(lambda: browser.texts("#passage mark") == [quote], "the quote alone is marked")
    assert browser.texts(".passage-text") == [text]


def test_partitions_are_shown_at_work(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    def hold_two(call: Call) -> Reply:
        held = call.stage == "extract" and ("group 9" in call.prompt or "number 14" in call.prompt)
        return Reply(hold=True) if held else faithful(call)

    server.script = hold_two
    browser.open(page(disagreeing.documents))
    browser.ask(QUESTION)
    browser.see("#status", "2 of 4 partitions read")
    browser.until(
        lambda: (
            browser.texts(".partition .outcome")
            == [
                "evidence: 4 quotes",
                "evidence: 4 quotes",
                "reading 4 documents…",
                "reading 4 documents…",
            ]
        ),
        "two partitions are read and two at work",
    )
    browser.see("#stop").click()
    browser.see("#status", "Stopped. No answer was given.")
    assert browser.texts(".partition .outcome")[2:] == ["stopped", "stopped"]
    assert not browser.all("#stop")[0].is_displayed()


def test_what_was_not_read_is_plain_to_see(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = without_group_9
    browser.open(page(disagreeing.documents))
    browser.ask(QUESTION)
    assert "Partition 3 was not read (doc-8, doc-9, doc-10, doc-11)" in browser.see(".checks").text
    assert "not read" in browser.see(".partition[data-state=failed]").text
    assert "3 of 4 partitions read" in browser.see("#step-read").text
    assert "1 note to check" in browser.see("#status").text


def test_a_failing_model_is_a_clear_error_and_can_be_asked_again(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply("overloaded", status=503)
    browser.open(page(disagreeing.documents))
    browser.ask(QUESTION)
    failure = browser.see("#failure[role=alert]", "The model did not answer")
    assert "All 4 partitions failed" in failure.text
    assert browser.see("#step-read").get_attribute("data-state") == "failed"
    assert browser.all(".references") == []
    server.script = faithful
    browser.see("#failure button", "Ask again").click()
    browser.see(".references")
    assert browser.texts("#failure") == [""]


def test_an_answer_that_failed_is_not_said_to_be_in_the_making(
    browser: Browser, page: Page, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply("overloaded", status=503)
    browser.open(page(agreeing.documents))
    browser.ask(QUESTION)
    browser.see("#failure[role=alert]", "The model did not answer")
    assert browser.see("#step-answer").get_attribute("data-state") == "failed"
    assert "Not written" in browser.see("#step-answer").text


def test_a_server_that_is_gone_is_a_clear_error(chrome: Browser) -> None:
    with serve_page(
        create_app(graph=build_graph(retriever=FixedRetriever(documents=[])))
    ) as address:
        chrome.open(address)
    chrome.ask(QUESTION)
    assert "cannot be reached" in chrome.see("#failure", "There is no connection").text
    chrome.reset()


def test_an_abstention_is_plain_to_see(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply('{"relevant": false}')
    browser.open(page(disagreeing.documents))
    browser.ask(QUESTION)
    browser.see(".abstained", "No answer was found in the documents.")
    browser.see("#answer .found", "Read the passages").click()
    assert browser.see("#step-retrieve .document").text
    assert browser.texts(".partition .outcome") == ["nothing on the question"] * 4
    assert "No answer was found" in browser.see("#status").text


def test_signs_at_sentences_open_their_notes_and_dangers_come_first(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    verdicts = [verdict(1, "contradicted", "the passage says 75 mg"), verdict(2, "supported")]
    server.script = lambda call: Reply(
        "😀 Take 5000 mg [{0}]. It helps [{0}]. Surely.\n- So.".format(call.documents[0][0])
    )
    server.verify = lambda call: Reply(json.dumps({"verdicts": verdicts}))
    browser.open(page(disagreeing.documents, route="vanilla"))
    browser.ask(QUESTION)
    assert (
        browser.see("#answer-body > .checks:first-child")
        .text.splitlines()[1]
        .startswith("“😀 Take 5000 mg [1].”")
    )
    assert browser.texts("#answer .sentence") == [
        "😀 Take 5000 mg [1].",
        "It helps [1].",
        "Surely.",
        "So.",
    ]
    signs = browser.all("#answer .text .sign")
    assert [sign.text for sign in signs] == [
        "✗ contradicted, figure not found",
        "✓ supported",
        "! uncited",
        "! uncited",
    ]
    assert not browser.all("#answer .verdict")[0].is_displayed()
    signs[0].send_keys(Keys.ENTER)
    opened = browser.see("#answer .verdict.bad", "the passage says 75 mg")
    assert "Not found in [1]: 5000 mg" in opened.text
    assert signs[0].get_attribute("aria-expanded") == "true"
    signs[0].send_keys(Keys.ENTER)
    browser.until(lambda: not opened.is_displayed(), "the verdict is closed")
    assert "1 call" not in browser.see(".usage").text


def test_an_answer_without_a_citation_is_said_to_have_none(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply("It surely is.")
    browser.open(page(disagreeing.documents, route="vanilla"))
    browser.ask(QUESTION)
    browser.see("#status", "Answered, without a citation.")


def test_nothing_retrieved_is_an_abstention(browser: Browser, page: Page) -> None:
    browser.open(page([]))
    browser.ask(QUESTION)
    browser.see(".abstained")
    assert "0 documents retrieved" in browser.see("#step-retrieve").text
    assert browser.all(".ranking") == []


def test_choice_and_conflict_are_shown(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    def choose(call: Call) -> Reply:
        if call.stage != "extract":
            return Reply(f"{faithful(call).content}\nConflict: Group 9 says yes.\nChoice: B")
        record = json.loads(faithful(call).content)
        return Reply(json.dumps({**record, "choice": "A" if "group" in call.prompt else "B"}))

    server.script = choose
    browser.open(page(disagreeing.documents))
    browser.see("#multiple-choice summary").click()
    browser.see("#option-A").send_keys("it does")
    browser.see("#option-B").send_keys("it does not")
    browser.ask(QUESTION)
    assert browser.see(".choice").text.split() == ["B", "it", "does", "not"]
    conflict = browser.see(".conflict").text
    assert "Group 9 says yes." in conflict
    assert "A: chosen in partition 3" in conflict
    assert "B: chosen in partitions 1, 2, 4" in conflict


def test_settings_take_effect_and_a_wrong_one_is_not_sent(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    browser.open(page(disagreeing.documents))
    browser.see("#settings summary").click()
    assert "Number of documents to retrieve." in browser.see("#setting-top_k-hint").text
    for name, value in (("top_k", "900"), ("partition_size", "2")):
        field = browser.see(f"#setting-{name}")
        field.clear()
        field.send_keys(value)
    browser.see("#setting-route").send_keys("map-reduce")
    browser.see("#settings summary").click()
    browser.ask(QUESTION)
    assert browser.see("#setting-top_k") == browser.driver.switch_to.active_element
    assert server.calls == []
    browser.see("#setting-top_k").clear()
    browser.see("#setting-top_k").send_keys("6")
    browser.see("#ask").click()
    browser.see(".references")
    assert browser.texts(".partition h5") == ["Partition 1", "Partition 2", "Partition 3"]


def test_filters_leave_what_fulfils_them_and_nothing_is_said_to_be_their_doing(
    browser: Browser, chat_model: ChatOpenAI, tmp_path: Path
) -> None:
    trial = "Randomized Controlled Trial"
    records = [
        record(
            f"{kind[0]}{year}",
            "Aspirin lowers the risk of stroke.",
            year=year,
            publication_types=kind,
        )
        for year in (2010, 2016, 2020)
        for kind in ("Meta-Analysis", trial)
    ]
    build(tmp_path, source("records", *records))
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        graph = build_graph(model=chat_model, retriever=retriever_over(base))
        with serve_page(create_app(graph=graph)) as address:
            browser.open(address)
            browser.see("#filters summary").click()
            first, last = browser.see("#setting-years").find_elements("tag name", "input")
            first.send_keys("2015")
            # PubMed's type is the one of that name beside an article.
            browser.see("#setting-publication_types input[value='randomized trial']").click()
            browser.ask(QUESTION)
            browser.see(".references")
            assert set(browser.texts(".ranking .document")) == {"On R2016", "On R2020"}
            last.send_keys("2015")
            browser.see("#ask").click()
            browser.see(".abstained")
            assert "(year 2015, publication types randomized trial)" in browser.see("#answer").text


def test_filters_say_what_they_leave_and_narrow_the_answer(
    browser: Browser, tmp_path: Path
) -> None:
    records = [
        record(
            f"{language}{year}",
            f"Aspirin lowered the risk of stroke in {year}.",
            year=year,
            languages=language,
        )
        for year in (2010, 2020)
        for language in ("eng", "fre")
    ]
    records.append(
        record("gone", "Aspirin cured strokes.", year=2020, languages="fre", retracted=True)
    )
    build_knowledge_base(
        [source("records", *records)], tmp_path / "base", encoder=load_encoder("minilm")
    )
    with serve_page(create_app(Settings(knowledge_base=str(tmp_path / "base")))) as address:
        browser.open(address)
        browser.ask(QUESTION)
        browser.see(".references")
        assert browser.all("#answer .filtered") == []
        assert not browser.all("#follow")[0].is_displayed(), (
            "without a model there are filters only"
        )
        browser.see("#narrow").click()
        first, last = browser.all("#setting-years input")
        first.send_keys("2015")
        last.send_keys("2010", Keys.TAB)
        browser.see("#filter-count", "2010")
        assert all("400" in complaint for complaint in browser.complaints())
        last.clear()
        browser.see("#more-filters summary").click()
        assert [
            field.get_attribute("id") for field in browser.all("#more-filter-fields input")
        ] == ["setting-languages"]
        browser.see("#setting-languages").send_keys("fr", Keys.TAB)
        browser.see("#filter-count", "1 of 5 passages left")
        browser.see("#settings summary").click()
        browser.see("#setting-include_retracted").click()
        browser.see("#filter-count", "2 of 5 passages left")
        browser.see("#setting-include_retracted").click()
        browser.see("#filter-count", "1 of 5 passages left")
        browser.see("#ask").click()
        browser.see(".references", "fre2020")
        assert browser.texts(".reference .source-id") == ["fre2020"]
        assert browser.see("#answer .filtered").text == "Filters: years 2015-, languages fr"


FINDING = "Aspirin lowered the risk of stroke"
FILLER = (
    "The participants were seen by their doctors every month, and nothing else was changed in "
    "their care. " * 5
)
LONG_DOCUMENT = (
    f"# Aspirin and stroke\n\n## Methods\n\n{FILLER}\n\n{FILLER}\n\n## Results\n\n{FILLER}\n\n"
    f"{FINDING} in men.\n\n{FILLER}\n\n{FILLER}\n\n## Discussion\n\n{FINDING} in women.\n\n{FILLER}"
)


@pytest.fixture(scope="module")
def long_document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page over one article, of which several passages answer."""
    path = tmp_path_factory.mktemp("document") / "aspirin.md"
    path.write_text(LONG_DOCUMENT, encoding="utf-8")
    settings = Settings(document=str(path), route="order_preserving")
    open_resources(settings)
    with serve_page(create_app(settings)) as address:
        yield address


def test_an_article_stands_once_with_its_quotes_and_where_they_stand(
    browser: Browser, long_document: str
) -> None:
    browser.open(long_document)
    browser.ask(QUESTION)
    browser.see("#status", "citing 1 article, 2 passages")
    assert "1 article, 2 passages" in browser.see("#references-heading").text
    assert {*browser.texts("#answer .text .cite")} == {"[1a]", "[1b]"}
    assert browser.texts(".reference > .number") == ["[1]"]
    quotes = dict(
        zip(
            browser.texts(".reference blockquote .quote"),
            browser.texts(".reference blockquote .where"),
            strict=True,
        )
    )
    assert quotes[f"“{FINDING} in men.”"] == "Aspirin and stroke › Results, paragraph 2"
    assert quotes[f"“{FINDING} in women.”"] == "Aspirin and stroke › Discussion, paragraph 1"
    named = browser.texts(".ranking:first-child .document")
    assert len(set(named)) == len(named) == 3


def test_passages_of_one_article_are_told_apart(browser: Browser, page: Page) -> None:
    title, section = "Aspirin and stroke", "Results"
    texts = (
        (title, f"{title}\n\n"),
        (section, f"{section}\n\nAspirin lowers the risk of stroke, as all who took it said so."),
        (title, f"{title}\n\nBoth are common."),
    )
    documents = [
        Document(
            id=f"7#{place}",
            page_content=text,
            metadata={"source_id": "7", "title": title, "section": heading},
        )
        for place, (heading, text) in enumerate(texts)
    ]
    browser.open(page(documents))
    browser.ask(QUESTION)
    browser.see(".references")
    beginnings = [
        "title",
        "Results: “Aspirin lowers the risk of stroke, as all who took it said s…”",
        "“Both are common.”",
    ]
    assert browser.texts(".documents .beginning") == beginnings


def test_reload_and_back_bring_the_last_answers_again(
    browser: Browser, page: Page, agreeing: FixedRetriever
) -> None:
    browser.open(page(agreeing.documents))
    for question in (QUESTION, "Does it lower blood pressure?"):
        browser.ask(question)
        browser.see("#result-heading", question)
        browser.see(".references")
    shown = browser.see("#answer .text").text
    browser.driver.refresh()
    browser.see("#result-heading", "Does it lower blood pressure?")
    assert browser.see("#answer .text").text == shown
    assert len(browser.all("#step-retrieve .documents li")) == 16
    browser.driver.back()
    browser.see("#result-heading", QUESTION)
    assert browser.see("#question").get_property("value") == QUESTION
    browser.driver.back()
    browser.until(
        lambda: not browser.all("#result")[0].is_displayed(), "the form is there as at first"
    )


def test_a_follow_up_becomes_a_question_of_its_own(
    browser: Browser, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    whole = "Which drug is first choice for type 2 diabetes in children?"
    server.script = lambda call: (
        Reply(whole) if "You rewrite a follow-up" in call.system else faithful(call)
    )
    settings = Settings(model=f"openai:scripted-{server.url}", max_retries=0)
    open_resources(settings)
    with serve_page(create_app(settings)) as address:
        browser.open(address)
        browser.ask(FIRST_CHOICE)
        browser.see(".references")
        browser.see("#follow").click()
        assert FIRST_CHOICE in browser.see("#following").text
        browser.ask("And in children?")
        browser.see("#result-heading", whole)
        browser.see(".references")
        assert "You asked “And in children?”" in browser.see("#asked-as").text
        browser.see("#follow").click()
        assert whole in browser.see("#following").text
        browser.see("#on-its-own").click()
        assert not browser.all("#following")[0].is_displayed()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_answer_comes_before_the_form_and_the_path_is_folded(
    width: int, browser: Browser, page: Page, agreeing: FixedRetriever
) -> None:
    browser.size(width, 844)
    browser.open(page(agreeing.documents))
    browser.ask(QUESTION, open_path=False)
    browser.see(".references")
    assert browser.see("#answer").rect["y"] < 500
    assert browser.see("#answer").rect["y"] < browser.see("#question").rect["y"]
    assert not browser.all("#steps")[0].is_displayed()
    browser.see("#another").click()
    assert _focused(browser) == "question"


def test_a_file_of_ones_own_is_asked_and_taken_out_again(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "aspirin.md").write_text(LONG_DOCUMENT, encoding="utf-8")
    with serve_page(create_app(uploads=True)) as address:
        browser.open(address)
        browser.see("#own-file summary").click()
        assert "forgotten" in browser.see("#file-hint").text
        browser.see("#file").send_keys(str(tmp_path / "aspirin.md"))
        assert browser.see("#own-file summary").text == "Your own file (aspirin.md)"
        assert not browser.all("#filters")[0].is_displayed()
        browser.ask(QUESTION)
        browser.see("#status", "citing 1 article, 2 passages")
        assert "aspirin.md alone" in browser.see("#asked-as").text
        browser.see(".reference blockquote .quote", "in men").click()
        browser.see("#passage .whole").click()
        browser.until(lambda: browser.texts("#passage .whole") == [], "all is shown")
        assert browser.texts("#passage .context")[0].startswith("Aspirin and stroke")
        browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        browser.see("#no-file").click()
        assert browser.see("#filters").is_displayed()
        browser.ask(FIRST_CHOICE)
        browser.see("#answer .text", "Metformin")
        assert not browser.all("#asked-as")[0].is_displayed()


def test_without_the_option_no_file_is_asked_for(browser: Browser, demo: str) -> None:
    browser.open(demo)
    assert not browser.all("#own-file")[0].is_displayed()


def test_references_are_saved_for_a_reference_manager(
    browser: Browser, long_document: str, tmp_path: Path
) -> None:
    browser.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    browser.open(long_document)
    browser.ask(QUESTION)
    browser.see(".save", "Save as RIS").click()
    saved = tmp_path / "references.ris"
    browser.until(lambda: saved.exists() and saved.read_text(), "the file is there")
    (entry,) = rispy.loads(saved.read_text())
    assert entry["title"] == "Aspirin and stroke"
    assert len(browser.all(".save")) == 3


def test_an_opened_passage_shows_what_stands_around_it_and_the_whole_source(
    browser: Browser, long_document: str
) -> None:
    browser.open(long_document)
    browser.ask(QUESTION)
    browser.see(".reference blockquote .quote", "in men").click()
    browser.until(
        lambda: "participants" in browser.texts("#passage .context")[0],
        "the passage before it is shown",
    )
    before, after = (len(text) for text in browser.texts("#passage .context"))
    browser.see("#passage .whole").click()
    browser.until(lambda: browser.texts("#passage .whole") == [], "all is shown")
    texts = browser.texts("#passage :is(.context, .passage-text)")
    assert len(texts[0]) > before
    assert len(texts[2]) > after
    assert "".join(texts).startswith("Aspirin and stroke")
    assert "".join(texts).rstrip().endswith("in their care.")
    assert browser.texts("#passage mark.current") == [f"{FINDING} in men."]


def hostile() -> list[Document]:
    return [
        Document(
            id=f'"><script>window.hacked = 1</script>{place}',
            page_content=f"Aspirin {ATTACK} lowers the risk of stroke in group {place}",
            metadata={
                "source_id": f"{ATTACK}{place}",
                "title": f"Title {place} {ATTACK}",
                "url": "javascript:window.hacked=1",
                "publication_types": ATTACK,
                "retracted": place == 0,
            },
        )
        for place in range(8)
    ]


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_a_hostile_document_question_and_reply_do_nothing(
    route: str, browser: Browser, page: Page, server: OpenAIServer
) -> None:
    def attack(call: Call) -> Reply:
        reply = faithful(call)
        if call.stage == "extract":
            return Reply(json.dumps({**json.loads(reply.content), "finding": ATTACK}))
        text, mark, quotes = reply.content.partition("\nQuotes:\n")
        return Reply(f"{ATTACK} **<b onclick=alert(1)>** {text}{mark}{quotes}")

    server.script = attack
    browser.open(page(hostile(), include_retracted=True, route=route))
    browser.ask(f"{QUESTION} {ATTACK}")
    browser.see(".references")
    browser.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    browser.see("#answer .text .cite").click()
    browser.see("#passage mark")
    assert "<script>window.hacked = 1</script>" in browser.texts("#passage .passage-text")[0]
    assert ATTACK in browser.texts("#answer .text")[0]
    assert "RETRACTED" in browser.see(".reference").text
    assert browser.run("return window.hacked") is None
    assert (
        browser.run(
            "return document.querySelectorAll('main :is(script, img, iframe, svg, style, a)').length"
        )
        == 0
    )
    assert (
        browser.run(
            "return document.querySelectorAll('#passage :is(script, img, iframe, svg, style, a)').length"
        )
        == 0
    )


def test_marks_that_turn_the_direction_of_text_are_shown_and_not_obeyed(
    browser: Browser, page: Page
) -> None:
    document = Document(
        id="turned",
        page_content="Take \u202e gm05 daily \u2066 here",
        metadata={"title": "\u202eeltiT"},
    )
    browser.open(page([document], route="vanilla"))
    browser.ask(QUESTION)
    browser.see(".references")
    browser.see(".reference .title").click()
    browser.see("#passage mark")
    assert browser.texts(".passage-text") == ["Take \ufffd gm05 daily \ufffd here"]
    assert browser.texts("#passage-title") == ["\ufffdeltiT"]


def test_links_lead_to_the_source_and_tell_it_nothing(
    browser: Browser, page: Page, agreeing: FixedRetriever
) -> None:
    documents = [document.model_copy(deep=True) for document in agreeing.documents]
    documents[0].metadata.update(
        url="https://pubmed.ncbi.nlm.nih.gov/1/",
        year=1999,
        publication_types="Meta-Analysis; Review",
    )
    documents[1].metadata["url"] = "https://trials.example/1"
    browser.open(page(documents))
    browser.ask(QUESTION)
    browser.see(".references")
    first, second = browser.all(".reference .meta a")
    assert first.text.startswith("Open in PubMed")
    assert second.text.startswith("Open the source")
    assert first.get_attribute("href") == "https://pubmed.ncbi.nlm.nih.gov/1/"
    for link in (first, second):
        assert link.get_attribute("rel") == "noopener noreferrer"
    assert browser.texts(".reference:first-child .meta .tag") == [
        "systematic review or meta-analysis",
        "1999",
    ]
    assert "1 systematic review or meta-analysis; " in browser.see(".evidence").text


def test_everything_can_be_done_with_the_keyboard(browser: Browser, demo: str) -> None:
    browser.open(demo)
    browser.until(lambda: _focused(browser) == "question", "the question has the focus")
    browser.driver.switch_to.active_element.send_keys(FIRST_CHOICE, Keys.CONTROL, Keys.ENTER)
    browser.see(".references")
    assert _focused(browser) == "result-heading"
    for _ in range(8):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        if browser.run("return document.activeElement.matches('.cite')"):
            break
    cite = browser.driver.switch_to.active_element
    assert cite.accessible_name.startswith("Citation 1: First-choice drug for type 2 diabetes")
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert browser.run(outline) == "solid"
    cite.send_keys(Keys.ENTER)
    browser.see("#passage mark")
    assert _focused(browser) == "passage-title"
    browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert _focused(browser) == "close-passage"
    browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert not browser.run(
        "return document.querySelector('#passage').contains(document.activeElement)"
    ), "a trap"
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.until(
        lambda: not browser.run("return document.querySelector('#passage').open"), "Esc closes it"
    )
    browser.until(
        lambda: browser.driver.switch_to.active_element == cite,
        "the focus goes back to the citation",
    )


def _focused(browser: Browser) -> str:
    return str(browser.run("return document.activeElement.id"))


def test_every_control_has_a_name_and_the_page_its_landmarks(browser: Browser, demo: str) -> None:
    browser.open(demo)
    browser.ask(MIDDLE)
    browser.see(".references")
    browser.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    controls = browser.all("button, input, select, textarea, a, summary")
    assert len(controls) > 60
    nameless = [
        control for control in controls if control.is_displayed() and not control.accessible_name
    ]
    assert [control.get_attribute("outerHTML") for control in nameless] == []
    assert [
        len(browser.all(landmark))
        for landmark in ("header", "main", "footer", "h1", "#status[role=status]")
    ] == [*(1, 1, 1, 1, 1)]
    levels = browser.run(
        "return [...document.querySelectorAll('main :is(h1,h2,h3,h4,h5)')].map((h) => +h.tagName[1])"
    )
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = browser.run("return [...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_colour_scheme(scheme: str, browser: Browser, demo: str) -> None:
    browser.media(prefers_color_scheme=scheme)
    browser.open(demo)
    red = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    assert (int(red) < 64) == (scheme == "dark")


@pytest.mark.parametrize("width", [320, 380, 800, 1280])
def test_nothing_is_cut_off_at_any_width(width: int, browser: Browser, demo: str) -> None:
    browser.size(width, 800)
    browser.open(demo)
    browser.ask(MIDDLE)
    browser.see(".references")
    browser.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    overflowing = (
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert browser.run(overflowing) == 0
    browser.see("#answer .text .cite").click()
    browser.see("#passage mark")
    inside = browser.run(
        "const { left, right } = document.querySelector('.passage-text').getBoundingClientRect();"
        "return left >= 0 && right <= document.documentElement.clientWidth"
    )
    assert inside
    assert browser.run("return document.querySelector('#passage').matches(':modal')") == (
        width <= 960
    )
    if width > 960:
        answer, passage = browser.see("#answer").rect, browser.see("#passage").rect
        assert answer["x"] + answer["width"] <= passage["x"]
        beside = [
            each for each in browser.all("header *, #result *, #asking *") if each.is_displayed()
        ]
        reached = [
            each.rect
            for each in beside
            if each.tag_name in ("button", "a", "input", "select", "textarea")
        ]
        assert len(reached) > 20
        assert all(rect["x"] + rect["width"] <= passage["x"] for rect in reached)
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.until(
        lambda: not browser.run("return document.querySelector('#passage').open"), "Esc closes it"
    )


def test_a_full_stop_stays_with_the_citation_before_it(
    browser: Browser, page: Page, agreeing: FixedRetriever
) -> None:
    browser.open(page(agreeing.documents))
    browser.ask(QUESTION)
    browser.see(".references")
    assert set(browser.texts("#answer .text .cited")) == {f"[{number}]." for number in range(1, 17)}
    for width in range(320, 400, 5):
        browser.size(width, 800)
        broken = "return [...document.querySelectorAll('.cited')].filter((each) => each.getClientRects().length > 1)"
        assert browser.run(broken) == [], width


@pytest.mark.parametrize("size", [(390, 844), (844, 390), (1280, 720)])
def test_a_long_title_leaves_room_for_the_passage(
    size: tuple[int, int], browser: Browser, page: Page
) -> None:
    title = (
        "Long-term outcomes of antiplatelet treatment after ischaemic stroke in adults with "
        "several diseases: " * 4
    )
    browser.size(*size)
    browser.open(
        page(
            [
                Document(
                    id="1", page_content=f"Aspirin helps. {FILLER * 9}", metadata={"title": title}
                )
            ]
        )
    )
    browser.ask(QUESTION)
    browser.see("#answer .text .cite").click()
    mark, top = browser.see("#passage mark"), browser.see("#passage .passage-top")
    assert top.rect["height"] < size[1] / 2
    browser.see("#close-passage")
    assert mark.rect["y"] >= top.rect["y"] + top.rect["height"]


def test_the_copy_has_numbered_references(browser: Browser, demo: str) -> None:
    browser.open(demo)
    browser.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    browser.ask(FIRST_CHOICE)
    browser.see(".copy").click()
    browser.see("#answer .actions", "Copied, with references.")
    copied = browser.driver.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0])"
    )
    assert copied.startswith(f"{FIRST_CHOICE}\n\nDemonstration texts")
    source = "[1] First-choice drug for type 2 diabetes · demo-type-2-diabetes-01"
    assert f"\nSources:\n{source}\n" in copied
    assert copied.endswith("Not medical advice: check every statement against its source.")


def test_on_paper_stand_the_answer_and_its_references(browser: Browser, demo: str) -> None:
    browser.open(demo)
    browser.ask(FIRST_CHOICE)
    browser.see(".references")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = [
        name
        for name in ("#asking", "#path", ".actions", "#status")
        if browser.all(name)[0].is_displayed()
    ]
    assert shown == []
    assert browser.see(".references").is_displayed()
    assert browser.see("footer", "Not medical advice")


def test_a_page_with_a_token_opens_by_its_link_and_forgets_it_in_the_address(
    browser: Browser, page: Page, agreeing: FixedRetriever
) -> None:
    address = page(agreeing.documents, token=TOKEN)
    browser.open(f"{address}#token={TOKEN}")
    assert browser.driver.current_url == address
    assert browser.run("return document.cookie") == ""
    browser.ask(QUESTION)
    browser.see(".references")


def test_a_page_without_its_token_asks_for_it(
    chrome: Browser, page: Page, agreeing: FixedRetriever
) -> None:
    chrome.driver.get(page(agreeing.documents, token=TOKEN))
    chrome.see("#gate #token").send_keys("wrong", Keys.ENTER)
    chrome.see("#gate-error", "That is not the token.")
    assert not chrome.all("#asking")[0].is_displayed()
    field = chrome.see("#token")
    field.clear()
    field.send_keys(TOKEN, Keys.ENTER)
    chrome.see(".about dd")
    chrome.ask(QUESTION)
    chrome.see(".references")
    chrome.reset()


def test_a_question_asked_meanwhile_takes_the_place_of_the_first(
    browser: Browser, page: Page, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: (
        Reply(hold=True) if "first stroke" in call.prompt else faithful(call)
    )
    browser.open(page(disagreeing.documents))
    browser.ask("Does aspirin lower the risk of a first stroke?")
    browser.see(".partition[data-state=reading]")
    browser.ask(QUESTION)
    browser.see(".references")
    assert browser.see("#result-heading").text == QUESTION


def test_an_answer_is_shown_as_it_is_written_and_new_events_do_no_harm(
    browser: Browser, demo: str
) -> None:
    browser.open(demo)
    document = {
        "id": "a",
        "rank": 1,
        "key": "7K3W",
        "source_id": "a",
        "title": "On a",
        "text": "It is so.",
        "notes": [],
    }
    lines = [
        {"event": "retrieved", "documents": 1},
        {"event": "documents", "documents": [document], "retracted": []},
        {"event": "brand_new", "anything": [1, 2]},
        {"event": "answering", "documents": 1},
        {"event": "answer_token", "text": "Cut off in the mid", "attempt": 1},
        *(
            {"event": "answer_token", "text": text, "attempt": 2}
            for text in ("Metformin <b>is</b> ", "first choice [1].")
        ),
    ]
    # The stream stays open, so that the draft can be seen; what the server sends is played by the
    # browser.
    browser.run(
        """
        const body = arguments[0].map((line) => JSON.stringify(line) + "\\n").join("");
        const stream = new ReadableStream({ start(to) { to.enqueue(new TextEncoder().encode(body)); } });
        window.fetch = async () => new Response(stream);
        """,
        lines,
    )
    browser.ask(FIRST_CHOICE)
    draft = ["Metformin <b>is</b> first choice [1]."]
    browser.until(lambda: browser.texts("#answer .draft") == draft, "the last attempt is shown")
    assert browser.see("#step-answer").get_attribute("data-state") == "active"


@pytest.mark.parametrize("said", ["It is so [1].", "**It is so [1].**"])
def test_a_quote_of_the_title_is_marked_there(browser: Browser, demo: str, said: str) -> None:
    browser.open(demo)
    document = {
        "id": "a",
        "rank": 1,
        "key": "7K3W",
        "source_id": "a",
        "title": "On the \U0001f9e0 of mice",
        "text": "Text.",
        "notes": [],
    }
    quote = {
        "text": "\U0001f9e0 of mice",
        "document_id": "a",
        "start": None,
        "end": None,
        "match": "title",
    }
    citation = {
        **document,
        "key": "1",
        "document_id": "a",
        "quote": quote["text"],
        "quotes": [quote],
        "url": None,
    }
    usage = {"calls": 0, "input_tokens": 0, "output_tokens": 0, "seconds": 0.1}
    answer = {
        **{
            "text": said,
            "choice": None,
            "abstained": False,
            "citations": [citation],
            "route": "vanilla",
        },
        "references": [
            {**document, "number": "1", "keys": ["1"], "authors": [], "citation": "On mice. a"}
        ],
        **{
            "extractions": [],
            "conflict": None,
            "usage": usage,
            "evidence": {"summary": ""},
            "notes": [],
        },
    }
    lines = [
        {"event": "documents", "documents": [document], "retracted": []},
        {"event": "answer", "answer": answer},
    ]
    browser.run(
        "const body = arguments[0].map((line) => JSON.stringify(line) + '\\n').join('');"
        "window.fetch = async () => new Response(body);",
        lines,
    )
    browser.ask(FIRST_CHOICE)
    browser.see("#answer .text .cite").click()
    browser.until(
        lambda: browser.texts("#passage mark") == ["\U0001f9e0 of mice"],
        "the words of the title are marked",
    )
    assert browser.texts("#passage-title mark") == browser.texts("#passage mark")
    assert "in the title" in browser.see("#passage-body").text


def test_a_calibrated_check_shows_its_probability_and_its_doubts(
    browser: Browser, demo: str
) -> None:
    browser.open(demo)
    documents = [
        {"id": id, "rank": rank, "key": "", "source_id": id, "title": f"On {id}", "text": "Text."}
        for rank, id in enumerate("abc", 1)
    ]
    preflight = {
        **{
            "iou": 0.5,
            "n": 2,
            "threshold": 0.2,
            "dense_top": ["a", "b"],
            "bm25_top": ["b", "a"],
            "consistent": True,
        },
        **{
            "method": "calibrated",
            "probability": 0.62,
            "probability_threshold": 0.4,
            "reason": "it is likely",
        },
        **{"contributions": {"dense_gap": 0.7, "iou": -0.2}, "caution": "Few questions were seen."},
    }
    lines = [
        {"event": "documents", "documents": documents, "retracted": []},
        {"event": "preflight", "preflight": preflight, "route": "map_reduce", "ranking": "hybrid"},
    ]
    browser.run(
        "const body = arguments[0].map((line) => JSON.stringify(line) + '\\n').join('');"
        "const stream = new ReadableStream({ start(to) { to.enqueue(new "
        "TextEncoder().encode(body)); } });"
        "window.fetch = async () => new Response(stream);",
        lines,
    )
    browser.ask(FIRST_CHOICE)
    assert "0.62 · read in groups from 0.40" in browser.see("#step-rank .overlap").text
    assert "Few questions were seen." in browser.see("#step-rank .notice").text
    assert browser.texts(".ranking h5") == ["Hybrid, top 2", "BM25, top 2"]
    assert browser.texts("#step-rank .overlap li") == [
        "dense gap: +0.70 log-odds",
        "iou: -0.20 log-odds",
    ]
