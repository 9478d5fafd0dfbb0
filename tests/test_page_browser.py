"""The page in a real browser: what a person sees, reaches by keyboard, and is safe from."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.page.app import create_app
from tests.conftest import QUESTION, FixedRetriever
from tests.knowledge_bases import record, source
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
    "</mark></div></dialog></script><script>window.hacked = 1</script><img src=x "
    'onerror="window.hacked = 1">'
    "<svg onload='window.hacked = 1'><iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>"
    "<a href='javascript:window.hacked = 1'>click</a> &lt;b&gt; <style>body{display:none}</style> "
    "{{hacked}}"
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


def test_an_abstention_is_shown(
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


def test_a_follow_up_is_rewritten(
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


def test_an_uploaded_file_is_asked_and_removed(browser: Browser, tmp_path: Path) -> None:
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


def test_a_hostile_document_question_and_reply_do_nothing(
    browser: Browser, page: Page, server: OpenAIServer
) -> None:
    def attack(call: Call) -> Reply:
        reply = faithful(call)
        if call.stage == "extract":
            return Reply(json.dumps({**json.loads(reply.content), "finding": ATTACK}))
        text, mark, quotes = reply.content.partition("\nQuotes:\n")
        return Reply(f"{ATTACK} **<b onclick=alert(1)>** {text}{mark}{quotes}")

    server.script = attack
    browser.open(page(hostile(), include_retracted=True, route="map_reduce"))
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
            "return document.querySelectorAll('main :is(script, img, iframe, svg, style, "
            "a)').length"
        )
        == 0
    )
    assert (
        browser.run(
            "return document.querySelectorAll('#passage :is(script, img, iframe, svg, style, "
            "a)').length"
        )
        == 0
    )


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


def test_the_page_follows_a_dark_color_scheme(browser: Browser, demo: str) -> None:
    browser.media(prefers_color_scheme="dark")
    browser.open(demo)
    red = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    assert int(red) < 64


@pytest.mark.parametrize("width", [390, 1280])
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
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.until(
        lambda: not browser.run("return document.querySelector('#passage').open"), "Esc closes it"
    )


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


def test_the_print_view_has_the_answer_and_references(browser: Browser, demo: str) -> None:
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
