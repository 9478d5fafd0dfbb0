"""Figures, units and negations of an answer stand in what it cites, or are marked at their sentence."""

import gzip
import json
import re
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys, cite, number_citations
from briefcontext.chains.support import Doubt, find_doubts, marked
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.retrievers.sentence_ranking import MIN_CHARACTERS
from briefcontext.sentences import split_sentences
from tests.conftest import SHARED_DATA, FixedRetriever
from tests.openai_server import Call, OpenAIServer, Reply

METFORMIN = (
    "Metformin is started at 500 mg once or twice daily with meals. The dose may rise to 1, 1.5 or 2 g a day. "
    "Metformin is not recommended in severe kidney failure. Clearance above 60 ml/min/1.73 m2 needs no change. "
    "In trial B12, 1,204 adults (54.2%) were followed for three weeks; weight changed by −2.5 kg, p < 0.05."
)
SOURCE = Document(id="d", page_content=METFORMIN, metadata={"title": "Metformin in type 2 diabetes", "year": 2019})
OTHER = Document(id="o", page_content="Aspirin is taken at 75 mg a day.", metadata={"title": "Aspirin"})


def _doubts(text: str, *documents: Document) -> list[Doubt]:
    """The doubts about a text in which [1], [2]… stand for the documents."""
    keyed = assign_keys("Q?", documents or [SOURCE, OTHER])
    _, citations, _ = number_citations(" ".join(map(cite, keyed)), keyed, [])
    return find_doubts(text, citations, keyed)


INVENTED = [
    (
        "The starting dose of metformin is 5000 mg six times a day, also in kidney failure [1].",
        ["5000 mg", "six times a day"],
    ),
    ("Metformin is started at 500 g [1].", ["500 g"]),
    ("Metformin is started at 500 µg [1].", ["500 µg"]),
    ("It is taken four times a day [1].", ["four times a day"]),
    ("They were followed for 3 months [1].", ["3 months"]),
    ("They were followed for 3 years [1].", ["3 years"]),
    ("Of 1,240 adults, 45.2% stayed [1].", ["1,240", "45.2%"]),
    ("It is p > 0.05 [1].", ["> 0.05"]),
    ("A clearance of 60 ml/h needs no change [1].", ["60 ml/h"]),
    ("Metformin is started at 500 mg [2].", ["500 mg", "metformin"]),
    ("Rivaroxaban is preferred [1].", ["rivaroxaban"]),
    ("Aspirin is not taken at 75 mg a day [2].", ["not"]),
    ("It doesn't matter for 75 mg of aspirin a day [2].", ["n't"]),
]


@pytest.mark.parametrize(("text", "missing"), INVENTED)
def test_what_stands_nowhere_in_the_cited_document_is_named(text: str, missing: list[str]) -> None:
    (doubt,) = _doubts(text)
    assert doubt["missing"] == missing
    assert doubt["reason"] == f"not in what it cites: {', '.join(missing)}"


NAMED = {
    "It is safe in pregnancy [1].": ["pregnancy"],
    "It is safe while breastfeeding [1].": ["breastfeeding"],
    "It may be given to older people [1].": ["older"],
    "It prevents hepatitis, and may be given in kidney failure [1].": ["hepatitis", "kidney"],
    "It relieves asthma and dementia [1].": ["asthma", "dementia"],
    "It relieves depression and headaches [1].": ["depression", "headaches"],
    "A randomised trial proved it [1].": ["randomised", "proved"],
    "Guidelines advise it [1].": ["Guidelines"],
    # By another spelling, an abbreviation, the study type, or a word for the same.
    "Arthritis of the haemophilic, a paediatric population, becomes rarer [1].": [],
    "Multiple sclerosis relapses less often [1].": [],
    "It relieves arthritis in women, as a cohort study found [1].": [],
    # What is called for is no claim.
    "A randomised trial is needed [1].": [],
}


@pytest.mark.parametrize("text", NAMED)
def test_diseases_patients_and_kinds_of_studies_stand_in_what_is_cited(text: str) -> None:
    told = (
        "In children with hemophilia, arthritis of the knee became rarer. The same was seen in their mothers. In MS, "
        "relapses were fewer."
    )
    source = Document(id="a", page_content=told, metadata={"study_type": "cohort study"})
    assert [name for doubt in _doubts(text, source) for name in doubt["missing"]] == NAMED[text]


def test_a_ratio_is_no_share_of_itself() -> None:
    for said, missing in (("by 21%", []), ("by 79%", ["79%"]), ("to a hazard ratio of 0.79", [])):
        assert [
            each for doubt in _doubts(f"Stroke was lowered {said} [1].", TRIAL) for each in doubt["missing"]
        ] == missing


ANIMALS = Document(
    id="m",
    page_content="Resveratrol reduced the volume of the tumour by 45% in mice. Weight did not differ.",
    metadata={"study_type": "animal or laboratory study"},
)
OPEN = Document(
    id="w",
    page_content="It remains unknown whether metformin harms the unborn baby. The sale of thrombolysis kits is allowed "
    "only if bleeding was excluded. The outcome did not differ (9% against 12%).",
)
BEYOND = [
    ("Resveratrol reduces tumours by 45% in patients [1].", ANIMALS, "not in what it cites: patients"),
    ("Resveratrol reduces tumours by 45% in mice [1].", ANIMALS, None),
    ("Metformin harms the unborn baby [1].", OPEN, "what it cites leaves it open, or limits it"),
    ("It is unclear whether metformin harms the unborn baby [1].", OPEN, None),
    ("The sale of thrombolysis kits is allowed [1].", OPEN, "what it cites leaves it open, or limits it"),
    ("The outcome was significantly rarer, 9% against 12% [1].", OPEN, "not in what it cites: significantly"),
    ("By the outcome, 9% against 12%, it is as safe as the other [1].", OPEN, "not in what it cites: as safe as"),
    (
        "Cataract surgery rarely needs general anaesthesia nowadays [1].",
        OPEN,
        "hardly a word of it is in what it cites",
    ),
]


@pytest.mark.parametrize(("text", "source", "reason"), BEYOND)
def test_what_goes_beyond_its_source_is_marked(text: str, source: Document, reason: str | None) -> None:
    assert [doubt["reason"] for doubt in _doubts(text, source)] == ([reason] if reason else [])


STANDING = [
    "Metformin is started at 500 mg once or twice daily with meals [1].",
    "Start with 0.5 g, two times a day [1].",
    "Doses of 1 g, 1500 mg and 2 g are usual [1].",
    "A clearance over 60 mL/min needs no change [1].",
    "A clearance of 60 ml needs nothing else, in type 2 diabetes [1].",
    "1204 adults were followed for 3 weeks (21 days) in 2019 [1].",
    "Weight fell by 2.5 kg [1].",
    "It is contraindicated, and never used, in severe kidney failure [1].",
    "It isn't recommended in severe kidney failure [1].",
    "No, metformin and aspirin were two drugs of COVID-19 and B12 [1][2].",
    "Of both drugs, 75 mg and 500 mg are taken [1] [2].",
    "It is 500 mg. [1] And 75 mg. [2]",
    "- Metformin is started at 500 mg [1].\n1. Aspirin is taken [2].",
    "These are the doses:\n\n500 mg [1].",
    "[1] Metformin is started at 500 mg. [2] Aspirin is taken at 75 mg a day.",
    "Metformin is started at 500 mg (doi:10.1000/xyz.2019) [1].",
]


TRIAL = Document(
    id="t",
    page_content="Of the patients in the trial 1.27% against 1.60% a year had a stroke (hazard ratio, 0.79; 95% CI, "
    "0.66 to 0.95; P<0.001).",
)


@pytest.mark.parametrize(
    "text",
    [
        "Stroke was rarer (HR 0.79, 95% CI 0.66-0.95) [1].",
        "Schlaganfälle waren mit dem Mittel seltener (1,27 % gegen 1,60 %; HR 0,79; 95-%-KI 0,66–0,95; p < 0,001) [1].",
    ],
)
def test_ratios_before_their_intervals_and_decimal_commas_are_no_doubt(text: str) -> None:
    assert _doubts(text, TRIAL) == []


def test_a_wrong_figure_with_a_decimal_comma_is_named() -> None:
    (doubt,) = _doubts("Schlaganfälle waren seltener (HR 0,97; 95-%-KI 0,66–0,95) [1].", TRIAL)
    assert doubt["missing"] == ["0,97"]


@pytest.mark.parametrize("text", STANDING)
def test_what_stands_there_in_other_words_units_or_spellings_is_no_doubt(text: str) -> None:
    assert _doubts(text) == []


def test_a_denial_that_is_left_out_of_a_part_of_a_sentence_is_the_opposite() -> None:
    told = (
        "Tamsulosin and nifedipine are not effective at decreasing the need for treatment, as this large trial showed."
    )
    source = Document(id="a", page_content=told)
    (doubt,) = _doubts("Tamsulosin is effective at decreasing the need for treatment [1].", source)
    assert doubt["reason"] == "what it cites says the opposite"
    assert _doubts("Tamsulosin is not effective at decreasing the need for treatment [1].", source) == []


def test_a_denial_that_is_left_out_of_a_sentence_is_the_opposite() -> None:
    (doubt,) = _doubts("Metformin is recommended in severe kidney failure [1].")
    assert doubt["reason"] == "what it cites says the opposite"
    (other,) = _doubts("Metformin is not started at 500 mg once or twice daily with meals [1].")
    assert other["missing"] == ["not"]


DIRECTIONS = {
    "Aspirin increased the risk of ischaemic stroke [1].": "what it cites has “reduced” for “increased”",
    "Aspirin lowered the risk of ischaemic stroke [1].": None,
    "The risk of ischaemic stroke was higher with placebo than with aspirin [1].": None,
    "Aspirin increased bleeding [1].": None,
    "Aspirin reduced the symptoms of depression [1].": None,
    "Aspirin worsened the symptoms of depression [1].": "what it cites has “improved” for “worsened”",
}


@pytest.mark.parametrize("text", DIRECTIONS)
def test_what_rises_in_an_answer_and_falls_in_its_source_is_the_opposite(text: str) -> None:
    told = (
        "Low-dose aspirin reduced the risk of recurrent ischaemic stroke. More bleeding was seen. "
        "Low-dose aspirin improved the symptoms of depression."
    )
    source = Document(id="a", page_content=told)
    reasons = [doubt["reason"] for doubt in _doubts(text, source)]
    assert reasons == [reason for reason in [DIRECTIONS[text]] if reason]


EXCHANGED = [
    ("The dose is halved when eGFR is between 30 and 45 mL/min.", "halved", "doubled"),
    ("Anticoagulation was stopped in all surgical patients.", "stopped", "started"),
    ("The drug should be taken before meals.", "before", "after"),
    ("The sensitivity of the blood test for sepsis was 85%.", "sensitivity", "specificity"),
    ("Aspirin is given in ischaemic stroke.", "ischaemic", "haemorrhagic"),
    ("Insulin is needed in type 1 diabetes from day 2 on.", "type 1", "type 2"),
    ("Heparin was noninferior to warfarin.", "noninferior", "superior"),
    ("The maximum daily dose is 4 g in adults.", "maximum", "minimum"),
    ("The maximum daily dose is 4 g in adults.", "adults", "children"),
    ("Hyperkalaemia was the adverse effect of spironolactone seen most.", "hyperkalaemia", "hypokalaemia"),
    ("Ibuprofen was superior to paracetamol for pain relief.", "superior", "inferior"),
    ("Treatment was effective in women.", "women", "men"),
    ("The dipstick test was positive in 40% of patients.", "positive", "negative"),
    ("Give alteplase within 4.5 hours of symptom onset.", "within", "after"),
    ("At least 30 mL/kg of fluid is given.", "at least", "at most"),
    ("Adrenaline 0.5 mg is given intramuscularly.", "intramuscularly", "intravenously"),
    ("Vincristine is given intravenously.", "intravenously", "intrathecally"),
    ("Rarely, the drug causes agranulocytosis.", "rarely", "commonly"),
    ("Systolic pressure fell by 10 mmHg.", "systolic", "diastolic"),
    ("Mortality was lower with noradrenaline than with dopamine.", "lower", "higher"),
    ("Weight was not increased in treated children.", "increased", "decreased"),
]


@pytest.mark.parametrize(("told", "word", "other"), EXCHANGED)
def test_a_word_that_excludes_the_one_of_the_source_is_named_beside_it(told: str, word: str, other: str) -> None:
    source = Document(id="a", page_content=f"It was a trial. {told} It was published.")
    said = re.sub(word, other, told, flags=re.IGNORECASE).removesuffix(".")
    (doubt,) = _doubts(f"{said} [1].", source)
    assert doubt["reason"] == f"what it cites has “{word}” for “{other}”"
    assert _doubts(f"{told.removesuffix('.')} and so on [1].", source) == []


@pytest.mark.parametrize(
    ("told", "text", "missing"),
    [
        ("It is infused at 5 mcg/kg/min.", "It is infused at 5 mcg/kg/h", ["5 mcg/kg/h"]),
        ("It is infused at 5 mcg/kg/min.", "It is infused at 5 mcg/kg", ["5 mcg/kg"]),
        ("It is infused at 5 mcg/kg/min.", "It is infused at 5 µg per kg per minute", []),
        ("Sodium may rise by 8 mmol/L/day.", "Sodium may rise by 8 mmol/L/h", ["8 mmol/L/h"]),
        ("Methotrexate 15 mg weekly was given.", "They took 15 mg of methotrexate daily", []),
        ("Methotrexate 15 mg weekly was given.", "They took methotrexate, 15 mg daily", ["15 mg daily"]),
        ("Methotrexate 15 mg once weekly was given.", "They took methotrexate, 15 mg a week", []),
        ("It is taken twice daily.", "It is taken twice weekly", ["twice weekly"]),
        ("It is taken twice daily.", "It is taken twice a day, or every 12 hours", []),
        ("It is taken every 8 hours.", "It is taken three times daily", []),
        ("It is taken every 8 hours.", "It is taken four times daily", ["four times daily"]),
        ("Sixty-four took it in a phase III trial.", "In a phase 3 trial 64 took it", []),
        ("Half of them got well.", "50% got well", []),
        ("It was 0.10 versus 0.20.", "It was 10% versus 20%", []),
        ("34.6% survived.", "35% survived", []),
        ("34.6% survived.", "36% survived", ["36%"]),
        ("Give 1.5 mg.", "Give 2 mg", ["2 mg"]),
        ("The ratio was 0·85 (0·75–0·96).", "The ratio was 0.85 (95% CI 0.75 to 0.96)", []),
        ("Stop below 30 mL/min.", "Stop below 30 mL/min/1.73 m²", []),
        ("Prednisolone 40 mg was given.", "Prednisone 40 mg was given", ["prednisone"]),
        ("Esomeprazole was given.", "Omeprazole was given", ["omeprazole"]),
        ("Morphine 10 mg was given.", "Hydromorphone 10 mg was given", ["hydromorphone"]),
    ],
)
def test_rates_intervals_and_names_are_compared_as_a_whole(told: str, text: str, missing: list[str]) -> None:
    doubts = _doubts(f"{text} [1].", Document(id="a", page_content=told))
    assert [doubt["missing"] for doubt in doubts] == [missing] * bool(missing)


@pytest.mark.parametrize(
    ("text", "turned"),
    [
        ("Warfarin caused less bleeding than apixaban [1].", True),
        ("Apixaban caused less bleeding than warfarin [1].", False),
        ("Warfarin caused more bleeding than apixaban [1].", False),
    ],
)
def test_a_comparison_the_other_way_round_is_marked(text: str, turned: bool) -> None:
    source = Document(id="a", page_content="Apixaban caused less bleeding than warfarin.")
    reasons = [doubt["reason"] for doubt in _doubts(text, source)]
    assert reasons == ["what it cites compares the other way round"] * turned


def test_use_where_its_source_forbids_it_is_the_opposite() -> None:
    source = Document(id="a", page_content="With an eGFR below 30 mL/min the drug should not be used.")
    (doubt,) = _doubts("The drug may be used with an eGFR below 30 mL/min [1].", source)
    assert doubt["reason"] == "what it cites says the opposite"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("Mortality was clearly lowered in treated women. Mortality was clearly lowered in treated infants.",
         "In treated women mortality was clearly lowered [1]."),
        ("Patients treated with it lived longer than those not treated.", "Treated patients lived longer [1]."),
        ("It helped patients with diabetes and those without diabetes.", "It helped patients with diabetes [1]."),
        ("Aspirin not only lowered mortality.", "Aspirin lowered mortality [1]."),
        ("Paracetamol relieves fever in children.", "Acetaminophen relieves fever in children [1]."),
        ("Ciprofloxacin cured them all.", "The fluoroquinolone cured them all; no magazine says so [1]."),
    ],
)  # fmt: skip
def test_what_a_source_says_of_others_is_no_doubt(told: str, text: str) -> None:
    reasons = [doubt["missing"] or doubt["reason"] for doubt in _doubts(text, Document(id="a", page_content=told))]
    assert reasons == ([["no"]] if "no magazine" in text else [])


def test_names_of_two_letters_before_a_stem_are_found() -> None:
    (doubt,) = _doubts("Heparin or diazepam is given [1].")
    assert doubt["missing"] == ["heparin", "diazepam"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Warfarin is safe in pregnancy [1].", "what it cites has “contraindicated” for “safe”"),
        ("Warfarin is contraindicated in pregnancy [1].", None),
        ("Adults with a clearance above 30 ml/min were excluded [1].", "what it cites has “below” for “above”"),
        ("Adults with a clearance below 30 ml/min were included [1].", "what it cites has “excluded” for “included”"),
        ("Mortality was higher in the enoxaparin group [1].", "what it cites has “placebo” for “enoxaparin”"),
        ("Mortality was higher in the placebo group [1].", None),
        ("Mortality was higher in the placebo arm [1].", None),
    ],
)
def test_who_is_in_danger_and_who_did_better_is_as_in_the_source(text: str, reason: str | None) -> None:
    told = (
        "Warfarin is contraindicated in pregnancy. Adults with a clearance below 30 ml/min were excluded. "
        "Enoxaparin was given to half of them. Mortality was higher in the placebo group."
    )
    assert [doubt["reason"] for doubt in _doubts(text, Document(id="a", page_content=told))] == [reason] * bool(reason)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("It is taken at .5 mg [1].", []),
        ("It is taken at 0.5 mg [1].", []),
        ("It is taken at .7 mg [1].", [".7 mg"]),
        ("It fell below 3.2 × 10⁹/L [1].", []),
        ("It fell in the 12th week [1].", []),
        ("It fell below 3.3 × 10⁹/L [1].", ["3.3"]),
        ("It fell below 3.2 × 10⁶/L [1].", ["10⁶/L"]),
        ("It fell below 3.2 × 10^6/L [1].", ["6/L"]),
    ],
)
def test_a_figure_is_read_as_a_whole(text: str, missing: list[str]) -> None:
    source = Document(id="a", page_content="It is taken at .5 mg. It fell below 3.2 × 10^9/L in week 12.")
    assert [each for doubt in _doubts(text, source) for each in doubt["missing"]] == missing


def test_a_zero_is_looked_for_as_any_other_figure() -> None:
    source = Document(id="a", page_content="Of 40 patients 3 died.")
    assert [doubt["missing"] for doubt in _doubts("Of 40 patients 0 died [1].", source)] == [["0"]]


@pytest.mark.parametrize(
    "said",
    [
        "**{}** [1]",
        "*{}* [1]",
        "__{}__[1]",
        "{} ([1])",
        "{}\n[1]",
        "{}\n\n[1] [1]\n",
        "- **{}** [1] It lowers glucose.",
    ],
)
def test_a_citation_behind_a_sentence_that_is_set_in_bold_is_its_own(said: str) -> None:
    reasons = [doubt["reason"] for doubt in _doubts(said.format("Metformin is started at 5 g daily."))]
    assert reasons == ["not in what it cites: 5 g daily", *["no citation"] * said.endswith("glucose.")]


def test_what_a_copied_sentence_stands_under_is_copied_too() -> None:
    told = "Do not give metformin to all.\n- Kidneys that fail clear it too slowly."
    (document,) = assign_keys("Q?", [Document(id="a", page_content=told)])
    start = told.index("Kidneys")
    quotes: Any = [{"text": told[start:], "document_id": "a", "start": start, "end": len(told), "match": "exact"}]
    copied = f"- Do not give metformin to all. Kidneys that fail clear it too slowly. {cite(document)}"
    text, citations, _ = number_citations(copied, [document], quotes)
    assert find_doubts(text, citations, [document]) == []


def test_sentences_without_a_citation_are_marked_where_they_stand() -> None:
    text = "Metformin is a drug. It is started at 500 mg [1]. 😀 Take 5 g [1]!"
    doubts = _doubts(text)
    assert [text[doubt["start"] : doubt["end"]] for doubt in doubts] == [doubt["sentence"] for doubt in doubts]
    assert marked(text, doubts) == (
        "Metformin is a drug. (! no citation) It is started at 500 mg [1]. 😀 Take 5 g [1]! "
        "(! not in what it cites: 5 g)"
    )


ON_WHAT_IS_MISSING = [
    "The documents do not say whether metformin lowers mortality in children.",
    "However, the documents do not report outcomes in pregnancy.",
    "The documents provided do not directly compare aspirin and clopidogrel.",
    "The retrieved documents don't mention the optimal duration of treatment.",
    "These abstracts do not specify the dose.",
    "The evidence does not address long-term safety.",
    "The evidence provided does not cover patients with renal failure.",
    "None of the documents compares warfarin with apixaban in dialysis.",
    "None of the retrieved trials reported mortality.",
    "No document describes the effect on quality of life.",
    "No retrieved trial directly compared the two drugs.",
    "The documents say nothing about the cost.",
    "The documents contain no data on children under two years.",
    "The documents give no direct comparison between the two.",
    "There is no evidence in the documents on its use in pregnancy.",
    "There is no information on dosing in the documents provided.",
    "No data on mortality are given in these passages.",
    "Quality of life was not reported in the documents.",
    "Whether it also lowers mortality is not stated in the documents.",
    "This is not addressed by the retrieved documents.",
    "The passages do not allow a conclusion on dose.",
    "The three abstracts did not assess bleeding.",
    "There is insufficient evidence in the documents to say whether it helps.",
    "**The documents do not say how long treatment should last.**",
    "Insufficient evidence: the documents do not compare metformin with insulin.",
    "The abstracts do not report the dose [1].",
]


@pytest.mark.parametrize("sentence", ON_WHAT_IS_MISSING)
def test_a_sentence_on_what_the_documents_do_not_tell_needs_no_citation(sentence: str) -> None:
    assert _doubts(sentence) == []


ON_THE_WORLD = [
    "There is no evidence that metformin causes cancer.",
    "No trial compared aspirin with clopidogrel.",
    "No evidence of harm was found.",
    "The documents show no evidence of harm.",
    "The documents provide no evidence that aspirin harms.",
    "The documents report no evidence of increased bleeding.",
    "There is no evidence in the documents that aspirin harms.",
    "There is no evidence of harm in the documents.",
    "The available evidence does not support its use.",
    "The evidence does not show a benefit.",
    "The literature does not report any deaths.",
    "Studies have not assessed the effect in children.",
    "The trials did not report mortality.",
    "The documents do not recommend metformin in kidney failure.",
    "The documents do not say whether it works, but it is safe in children.",
    "The documents do not mention children, and aspirin causes bleeding.",
    "The documents do not mention children and aspirin should be avoided.",
    "The documents do not mention any harm other than bleeding.",
    "The documents do not report harm; it is safe.",
    "The documents do not report harm, so it can be given to anybody.",
    "The documents do not report harm because there is none.",
    "Aspirin does not cause bleeding in the documents.",
    "Aspirin is safe and harm is not reported in the documents.",
    "No deaths were reported in the documents.",
    "Metformin was not stopped in the documents.",
    "Aspirin is not given in the documents with bleeding.",
    "The documents report no deaths.",
    "The documents do not disagree.",
    "Metformin is a drug.",
    "The documents say that metformin is not safe.",
    "Aspirin does not reduce the pain reported in the retrieved trials.",
]


@pytest.mark.parametrize("sentence", ON_THE_WORLD)
def test_a_denial_about_the_world_or_one_that_says_more_needs_a_citation(sentence: str) -> None:
    assert [doubt["reason"] for doubt in _doubts(sentence)] == ["no citation"]


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_an_invented_dose_is_marked_and_warned_of_before_the_answer(
    route: Any, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    quote = "Metformin is started at 500 mg once or twice daily with meals."

    def script(call: Call) -> Reply:
        if call.stage == "extract":
            key = next(key for key, text in call.documents if quote in text)
            return Reply(json.dumps({"relevant": True, "quotes": [{"key": key, "quote": quote}], "finding": "So."}))
        key = call.prompt.split("Metformin is started")[0].rpartition('key="')[2][:4] if call.documents else ""
        key = key or call.user.split("[")[1].split("]")[0]
        said = f"The starting dose of metformin is 5000 mg six times a day, also in kidney failure [{key}]."
        return Reply(said + (f'\nQuotes:\n[{key}] "{quote}"' if call.documents else ""))

    server.script = script
    built = build_graph(reader=chat_model, retriever=FixedRetriever(documents=[SOURCE, OTHER]))
    asked = {"question": "At what dose is metformin started?"}
    answer = built.invoke(asked, context=Settings(route=route, max_retries=0))["answer"]
    assert [citation["quote"] for citation in answer["citations"]] == [quote]
    assert [doubt["missing"] for doubt in answer["doubts"]] == [["5000 mg", "six times a day"]]
    assert answer["cautions"] == [
        "One sentence of the answer says what the cited documents do not "
        "(not in what it cites: 5000 mg, six times a day)."
    ]


def _abstracts(name: str) -> list[dict[str, Any]]:
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"needs {name} in the shared data")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file][:400]


@pytest.mark.parametrize(
    "name", ["bioasq/corpus.jsonl.gz", "pubmedqa/corpus.jsonl.gz", "distractors/abstracts.jsonl.gz"]
)
def test_sentences_that_were_copied_are_never_doubted(name: str) -> None:
    for row in _abstracts(name):
        (document,) = assign_keys("Q?", [Document(id=row["id"], page_content=row["text"])])
        quotes: Any = [
            {"text": row["text"][start:end], "document_id": row["id"], "start": start, "end": end, "match": "exact"}
            for start, end in split_sentences(row["text"])
            if end - start >= MIN_CHARACTERS
        ]
        lines = [f"- {quote['text']} {cite(document)}" for quote in quotes]
        text, citations, _ = number_citations("\n".join(["The closest:", *lines]), [document], quotes)
        assert find_doubts(text, citations, [document]) == []


def test_an_answer_in_another_language_is_compared_by_its_figures_alone(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    said = "Das Risiko eines Schlaganfalls wird nicht gesenkt und die Dosis ist 5 mg bei den Kindern [{}]."
    server.script = lambda call: Reply(said.format(call.documents[0][0]))
    built = build_graph(reader=chat_model, retriever=FixedRetriever(documents=[SOURCE]))
    answer = built.invoke({"question": "Does it help?"}, context=Settings(route="vanilla"))["answer"]
    assert [doubt["missing"] for doubt in answer["doubts"]] == [["5 mg"]]
    assert any(warning.startswith("Only figures were compared") for warning in answer["warnings"])
