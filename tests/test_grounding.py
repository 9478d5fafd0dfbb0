"""Looking up quotes in documents."""

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.chains.extract import ground_all
from briefcontext.chains.parsing.grounding import ground
from briefcontext.chains.reader import CUT_AT

TEXT = (
    "Background: TNF-α and IL-6 were raised. Treatment did not reduce mortality (RR 0.95;\n95% CI "
    "0.8–1.1) "
    "compared with placebo. Straße and naïve spellings occur."
)
AFTER = ". Straße and naïve spellings occur."
OTHER = "An unrelated text about the colour of the sky in spring and autumn."
DOCUMENTS = [Document(id="other", page_content=OTHER), Document(id="text", page_content=TEXT)]


@pytest.mark.parametrize(
    ("quote", "words", "match"),
    [
        ("TNF-α and IL-6 were raised", "TNF-α and IL-6 were raised", "exact"),
        ("“TNF-α and IL-6 were raised”", "TNF-α and IL-6 were raised", "exact"),
        ("tnf-α AND il-6 were raised", "TNF-α and IL-6 were raised", "normalised"),
        (
            "did not reduce mortality (RR 0.95; 95% CI 0.8-1.1)",
            "did not reduce mortality (RR 0.95;\n95% CI 0.8–1.1",
            "normalised",
        ),
        ("Strasse and naive spellings", "Straße and naïve spellings", "normalised"),
        (
            "Treatments did not reduce the mortality (RR 0.95; 95% CI 0.8–1.1) compared with "
            "placebo",
            "Treatment did not reduce mortality (RR 0.95;\n95% CI 0.8–1.1) compared with placebo",
            "fuzzy",
        ),
        ("Treatment did … reduce mortality", "Treatment did not reduce mortality", "fuzzy"),
        (
            "Background: ... IL-6 were raised. Treatment did not [...] compared with placebo",
            TEXT[: -len(AFTER)],
            "fuzzy",
        ),
    ],
)
def test_a_quote_is_found_with_the_words_of_the_document(
    quote: str, words: str, match: str
) -> None:
    found = ground(quote, DOCUMENTS)
    assert found is not None
    assert (found["document_id"], found["match"]) == ("text", match)
    assert found["text"] == TEXT[found["start"] : found["end"]]
    assert words in found["text"] or found["text"] in words


@pytest.mark.parametrize(
    "quote",
    [
        "Treatment did reduce mortality (RR 0.95; 95% CI 0.8–1.1) compared with placebo",
        "Treatment did not reduce mortality (RR 0.59; 95% CI 0.8–1.1) compared with placebo",
        "Treatment did not increase mortality (RR 0.95; 95% CI 0.8–1.1) compared with placebo",
        "The drug was approved by every agency of the world",
        "IL-6",
        "",
        "…",
        "compared with placebo … Treatment did not reduce",
        "Treatment did not reduce … of the sky in spring",
    ],
)
def test_words_that_say_something_else_are_not_found(quote: str) -> None:
    assert ground(quote, DOCUMENTS) is None


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("The dose was 1.5 mg daily in all adults.", "The dose was 15 mg daily in all adults."),
        (
            "Platelets < 50 were seen in many patients.",
            "Platelets > 50 were seen in many patients.",
        ),
        (
            "A severe hypoglycaemia followed in the treated group.",
            "A severe hyperglycaemia followed in the treated group.",
        ),
        (
            "The drug was given before the operation in all.",
            "The drug was given after the operation in all.",
        ),
    ],
)
def test_a_changed_figure_sign_or_opposite_is_not_found(text: str, quote: str) -> None:
    assert ground(quote, [Document(id="d", page_content=text)]) is None
    assert ground(text, [Document(id="d", page_content=text)]) is not None


WHOLE = (
    "Treatment with warfarin must be stopped at once when bleeding occurs in adults with atrial "
    "fibrillation, "
    "and 50 µg of levothyroxine, or propranolol for the tremor, were given in the haematology ward."
)


@pytest.mark.parametrize(
    ("words", "others"),
    [
        *(
            ("stopped", "started"),
            ("warfarin", "apixaban"),
            ("50 µg", "50 mg"),
            ("adults", "infants"),
        ),
        *(
            ("levothyroxine", "liothyronine"),
            ("levothyroxine", "levothyronine"),
            ("must be", "must always be"),
        ),
        *((", or propranolol", ", and propranolol"), ("propranolol for", "metoprolol for")),
    ],
)
def test_a_quote_with_another_drug_unit_or_claim_is_not_found(words: str, others: str) -> None:
    assert ground(WHOLE.replace(words, others), [Document(id="d", page_content=WHOLE)]) is None


@pytest.mark.parametrize(
    ("words", "others"),
    [
        *(
            ("fibrillation", "fibrilation"),
            ("when bleeding", "when a bleeding"),
            ("haematology", "hematology"),
        ),
        *(("occurs", "occurred"), (" atrial", ""), ("Treatment", "Treatments")),
    ],
)
def test_spelling_endings_and_words_left_out_do_not_matter(words: str, others: str) -> None:
    text = f"Before it all. {WHOLE} After it all."
    found = ground(WHOLE.replace(words, others), [Document(id="d", page_content=text)])
    assert found is not None
    assert found["match"] == "fuzzy"
    assert found["text"] == text[found["start"] : found["end"]]
    assert found["text"] == WHOLE.rstrip(".")


FIGURES = (
    "The mean change was −5.2 mmHg (95% CI −7.1 to −3.3) in 15.2% of 1,200 adults; range 10–20."
)


@pytest.mark.parametrize(
    ("quote", "words"),
    [
        ("The mean change was 5.2 mmHg", None),
        ("5.2 mmHg (95% CI −7.1 to −3.3)", None),
        ("5.2% of 1,200 adults", None),
        ("200 adults; range 10–20", None),
        ("in 15.2% of 1", None),
        ("The mean change was −5.2 mmHg", "The mean change was −5.2 mmHg"),
        ("-5.2 mmHg (95% CI -7.1 to -3.3)", "−5.2 mmHg (95% CI −7.1 to −3.3"),
        ("1200 adults, range 10-20", "1,200 adults; range 10–20"),
    ],
)
def test_a_figure_is_found_whole_and_with_its_sign(quote: str, words: str | None) -> None:
    found = ground(quote, [Document(id="d", page_content=FIGURES)])
    assert (found and found["text"]) == words


def test_a_quote_named_for_the_wrong_document_goes_to_the_right_one() -> None:
    found = ground("IL-6 were raised", DOCUMENTS, preferred="other")
    assert found is not None
    assert found["document_id"] == "text"


TITLED = [
    Document(
        id="a",
        page_content="Nothing of the kind is here.",
        metadata={"title": "Zinc for the common cold."},
    ),
    Document(
        id="b",
        page_content="We gave zinc for the common cold to adults.",
        metadata={"title": "Zinc"},
    ),
]


@pytest.mark.parametrize(
    ("quote", "preferred", "id", "match"),
    [
        ("Zinc for the common cold", "a", "a", "title"),
        ("ZINC for the Common-Cold", "a", "b", "normalised"),
        ("Zinc against the common cold", "a", None, None),
        ("zinc for the common cold", "a", "b", "exact"),
    ],
)
def test_a_title_is_searched_after_the_texts(
    quote: str, preferred: str, id: str | None, match: str | None
) -> None:
    found = ground(quote, TITLED, preferred=preferred)
    assert (found and found["document_id"], found and found["match"]) == (id, match)


@given(text=st.text(min_size=1, max_size=200), data=st.data())
def test_any_piece_of_a_document_is_found_with_true_offsets(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    found = ground(text[start:end], [Document(id="d", page_content=text)])
    if found:
        assert found["text"] == text[found["start"] : found["end"]]
    else:
        assert sum(character.isalnum() for character in text[start:end]) < 16


CUT_OUT = {
    "metformin is safe in children": "It is not known whether metformin is safe in children",
    "Thrombolysis is recommended": "Thrombolysis is recommended only if bleeding was excluded.",
    "is safe in children. Thrombolysis is": "It is not known whether metformin is safe in "
    "children. Thrombolysis is "
    "recommended only if bleeding was excluded.",
    "Aspirin is stopped five days before": "Aspirin is stopped five days before",
}


@pytest.mark.parametrize("quote", CUT_OUT)
def test_a_quote_is_widened_to_its_sentence(quote: str) -> None:
    _, _, both, long = CUT_OUT.values()
    source_text = f"{both} {long} {'x ' * 400}surgery."
    document = Document(
        id="a", page_content=f"Cut off. {source_text}", metadata={CUT_AT: 100, "key": "2B3C"}
    )
    (found,), lost = ground_all([("", quote)], [document])
    assert (found["text"], found["match"], lost) == (CUT_OUT[quote], "exact", 0)
    assert found["start"] is not None
    assert found["start"] == 100 + document.page_content.index(CUT_OUT[quote])


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("it was taken at .5 mg a day (p<.05)", True),
        ("It was taken at 5 mg a day (P < .05)", False),
        ("It was taken at .5 mg a day (P > .05)", False),
        ("5 mg a day (P < .05)", False),
        ("weighed .70 kg", False),
        ("weighed 70 kg", True),
        (".5 mg a day (p<.05)", True),
        (".5 mg a day at home", False),
        (".5 mg A DAY at home", False),
    ],
)
def test_a_number_with_a_leading_point_is_found_whole(quote: str, found: bool) -> None:
    document = Document(
        id="a",
        page_content=(
            "It was taken at .5 mg a day (P < .05). They weighed 70 kg. Or at 1.5 mg a day at home."
        ),
    )
    assert bool(ground(quote, [document])) is found
