"""Which option a reply settles on, and where it settles on none."""

import pytest
from hypothesis import given, strategies as st

from briefcontext.chains.parsing.answer_parser import named_option, parse_choice

DRUGS = {"A": "Atropine", "B": "Neostigmine", "C": "Flumazenil", "D": "None of the above"}
DECISIONS = {"A": "yes", "B": "no", "C": "maybe"}
CELLS = {"A": "T cell", "B": "NK cell", "C": "B cell", "D": "Mast cell"}
GROUPS = {"A": "B", "B": "A", "C": "AB", "D": "O"}
MOUTH = {"A": "hard palate.", "B": "hard palate and upper lip.", "C": "upper lip.", "D": "tongue."}
RATES = {"A": "197.4", "B": "320", "C": "225", "D": "-80", "E": "80"}
GERMS = {"A": "S. aureus", "B": "E. coli", "C": "K. pneumoniae", "D": "Candida", "E": "Listeria"}

NO_CHOICES = [
    "N/A",
    "n/a",
    "NA",
    "none",
    "None",
    "null",
    "unknown",
    "Unknown.",
    "-",
    "–",
    "—",
    "?",
    "cannot be determined",
    "Cannot be determined from the documents",
    "insufficient evidence",
    "Insufficient information",
    "not determined",
    "Not enough information",
    "unable to answer",
    "no answer",
    "None of these",
    "",
]
SEVERAL = [
    "A/B",
    "A / B",
    "A, B",
    "A or B",
    "A and B",
    "A & B",
    "(A) or (B)",
    "A) Atropine, B) Neostigmine",
    "A>B>C",
]
FORMS = [
    "{}",
    "({})",
    "[{}]",
    "<{}>",
    "**{}**",
    "`{}`",
    '"{}"',
    "“{}”",
    "{}.",
    "{})",
    "Option {}",
]
LINES = [
    "Choice: {}",
    "choice : {}",
    "**Choice:** {}",
    "**Choice: {}**",
    "Choice: <{}>",
    "Choice: ({})",
    "Choice:\n{}",
    "Answer: {}",
    "ANSWER: {}",
    "Answer = {}",
    "Final answer: {}",
    "The answer: {}",
]
SENTENCES = [
    "The answer is {}",
    "The answer is ({}).",
    "The answer is **{}**.",
    "The correct answer is {} because it inhibits the enzyme.",
    "So the best answer is most likely {}.",
    "The correct answer is:\n\n**{}**",
    "The answer to this question is {}.",
    "The answer is {}, since A blocks the receptor.",
    "The answer should be {}.",
    "I choose {}.",
    "So I'd go with ({}).",
    "I would select option {} because it inhibits the enzyme.",
    "Thus, option {} is correct.",
    "({}) is the most likely correct answer.",
]
FIELDS = [
    '{{"answer_choice": "{}"}}',
    '{{"step_by_step_thinking": "The answer is A or C.", "answer_choice": "{}"}}',
    '{{"choice": "{}", "confidence": 0.9}}',
    "{{'answer': '{}'}}",
    '```json\n{{"final_answer": "{}"}}\n```',
    '{{"answer": ["{}"]}}',
    '{{"answer": "{}", "why": "it was cut o',
    'Step 1: A is out. Choice C is false.", "answer_choice": "{}"}}',
    "<answer>{}</answer>",
]


@pytest.mark.parametrize("form", [*FORMS, *LINES, *SENTENCES, *FIELDS])
def test_the_letter_that_is_written_is_the_letter_that_is_read(form: str) -> None:
    assert parse_choice(form.format("B"), DRUGS) == "B"


@pytest.mark.parametrize("form", [*LINES, *FIELDS])
@pytest.mark.parametrize(
    "words", ["Neostigmine", "NEOSTIGMINE.", "B) Neostigmine", "B. Neostigmine", "B - Neostigmine"]
)
def test_an_options_own_words_name_it(form: str, words: str) -> None:
    assert parse_choice(form.format(words), DRUGS) == "B"


@pytest.mark.parametrize("words", NO_CHOICES)
@pytest.mark.parametrize("form", ["{}", "Choice: {}", "Answer: {}", *FIELDS])
def test_what_says_that_there_is_no_choice_is_none(form: str, words: str) -> None:
    assert parse_choice(form.format(words), DRUGS) is None
    assert parse_choice(form.format(words), DECISIONS) is None


@pytest.mark.parametrize("words", SEVERAL)
@pytest.mark.parametrize("form", ["{}", *LINES, *FIELDS, "The answer is {}."])
def test_several_options_are_none(form: str, words: str) -> None:
    assert parse_choice(form.format(words), DRUGS) is None


@pytest.mark.parametrize("words", [*NO_CHOICES, *SEVERAL, "E", "Z", "42", "I would say yes"])
def test_a_field_that_names_no_single_option_is_none(words: str) -> None:
    assert named_option(words, DRUGS) is None


@pytest.mark.parametrize(
    ("value", "options", "letter"),
    [
        ("b", DRUGS, "B"),
        ("B: because it inhibits the enzyme", DRUGS, "B"),
        ("unknown", {"A": "yes", "B": "unknown"}, "B"),
        ("None of the above", DRUGS, "D"),
        ("yes", DECISIONS, "A"),
        ("No.", DECISIONS, "B"),
        ("B cell", CELLS, "C"),
        ("B", CELLS, "B"),
        ("A", GROUPS, "A"),
        ("hard palate and upper lip", MOUTH, "B"),
        ("hard palate", MOUTH, "A"),
        ("D. -80", RATES, "D"),
        ("225", RATES, "C"),
        ("E. coli", GERMS, "B"),
    ],
)
def test_a_field_names_an_option_by_its_letter_or_its_words(
    value: str, options: dict[str, str], letter: str
) -> None:
    assert named_option(value, options) == letter


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        ("Choice: B) Atropine", DRUGS),
        ("Both A and C are plausible, but B is best.", DRUGS),
        ("A trial found that it helps.", DRUGS),
        ("A. No, it is not associated.", DECISIONS),
        ("Answer: B. 225", RATES),
        ("Choice: A is not supported", DRUGS),
        ("I choose neither.", DRUGS),
        ("I choose A or B.", DRUGS),
        ("Therefore, A was excluded.", DRUGS),
        ("Therefore, no drug helps.", DECISIONS),
        ("The answer is not clear.", DRUGS),
        ("The answer is a drug.", DRUGS),
        ("THE ANSWER IS A DRUG", DRUGS),
        ("The answer is no longer valid.", DECISIONS),
        ("No evidence was found.", DECISIONS),
        ("No patients died.", DECISIONS),
        ("I know of no trial.", DECISIONS),
        ("A\nB", DRUGS),
        ("A) Atropine\nB) Neostigmine", DRUGS),
        ("A: 10%, B: 80%, C: 10%", DRUGS),
        ("yes\nno\nmaybe", DECISIONS),
        ("<think>The answer is B.", DRUGS),
        ("", DRUGS),
    ],
)
def test_what_does_not_settle_on_an_option_is_none(reply: str, options: dict[str, str]) -> None:
    assert parse_choice(reply, options) is None


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The answer is yes [K1].\nChoice: B", "B"),
        ("It is so [2B3C].\nConflict: 2B3C says that the answer is no.\nChoice: A", "A"),
        ("Choice: A\nConflict: 2B3C says that the answer is no.", "A"),
        ("Choice: A\nWait, that is wrong.\nChoice: B", "B"),
        ("Answer: Metformin lowers glucose [K1].\nChoice: B [K1]", "B"),
        ("Choice: A\nChoice: N/A", None),
        ('{"answer": "A"}\nWait: {"answer": "B"}', "B"),
        ('The answer is A.\n{"answer": "B"}', "B"),
        ('The answer is A.\n{"answer": null}', None),
        ('The answer is A.\n{"answer": "N/A"}', None),
        ("<think>The answer is A.</think>\nB", "B"),
        ("A. yes\nB. no\n\nAnswer: B", "B"),
        ("B. No, because it does not help.", "B"),
        ("Yes.", "A"),
    ],
)
def test_a_field_counts_before_the_last_line_and_a_line_before_a_letter(
    reply: str, letter: str | None
) -> None:
    assert parse_choice(reply, DECISIONS) == letter


@given(st.text(max_size=200), st.sampled_from([DRUGS, DECISIONS, GROUPS, {}]))
def test_any_text_gives_a_letter_of_the_options_or_none(
    reply: str, options: dict[str, str]
) -> None:
    assert parse_choice(reply, options) in {*options, None}


@given(
    st.lists(
        st.sampled_from(
            [
                "The answer is",
                "A",
                "B",
                "N/A",
                "or",
                "yes",
                "no.",
                '{"answer":',
                '"A"}',
                "\n",
                "Choice:",
                "(C)",
            ]
        ),
        max_size=12,
    ),
    st.sampled_from([DRUGS, DECISIONS]),
)
def test_any_mixture_of_statements_gives_a_letter_or_none(
    words: list[str], options: dict[str, str]
) -> None:
    assert parse_choice(" ".join(words), options) in {*options, None}


@pytest.mark.parametrize(
    "filling",
    [
        "The drug was given { [ ( twice, and it is not known why. " * 2_000,
        "*" * 40_000 + "\n",
        "\n" * 20_000,
        "based on " * 4_000 + "\n",
    ],
    ids=["sentences", "marks", "empty lines", "phrases"],
)
def test_a_very_long_reply_is_read(filling: str) -> None:
    assert parse_choice(filling + "The answer is B.", DRUGS) == "B"


@pytest.mark.parametrize("boxed", [r"\boxed{7.5 mg}", r"\boxed{A}", r"\boxed{\text{A}}"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_boxed_value_does_not_beat_a_line_with_the_choice(boxed: str, is_first: bool) -> None:
    lines = [f"One dose is {boxed}.", "Choice: D"]
    reply = "\n\n".join(lines if is_first else reversed(lines))
    assert parse_choice(reply, {"A": "7.5 mg", "B": "10 mg", "D": "30 mg"}) == "D"
