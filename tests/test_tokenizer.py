"""The terms of BM25: one for all spellings of a name, and none for what says nothing."""

import gzip
import json

import pytest

from briefcontext.knowledge.store.terms import tokenize
from tests.conftest import SHARED_DATA


@pytest.mark.parametrize(
    "spellings",
    [
        ["IL-6", "IL6", "IL 6", "il-6", "IL\u20116"],
        ["COVID-19", "COVID19", "Covid 19"],
        ["TNF-α", "TNFα", "TNF-alpha", "TNF alpha", "tnf α", "TNF-Α"],
        ["β-blocker", "beta-blocker", "beta blockers", "Beta–blockers"],
        ["µ-opioid", "μ-opioid", "mu opioid"],
        ["mortality?", "mortality.", "Mortality", "(MORTALITY)", "mortalities"],
        ["Crohn's disease", "Crohn’s disease", "Crohn disease", "crohn's diseases"],
        ["Sjögren", "Sjogren", "SJÖGREN", "Sjo\u0308gren"],
        ["H₂O", "H2O"],
        ["ﬁbrosis", "fibrosis", "fi\u00adbrosis"],
        ["CD4+", "CD-4", "cd4"],
        ["0·05", "0.05"],
        ["5-HT2A", "5 HT 2A", "5HT-2A"],
        *(
            pair.split("/")
            for pair in [
                "anaemia/anemia",
                "leukaemia/leukemia",
                "oedema/edema",
                "oesophagus/esophagus",
                "diarrhoea/diarrhea",
                "foetal/fetal",
                "tumour/tumor",
                "tumours/tumors",
                "randomised/randomized",
                "hospitalisation/hospitalization",
                "analysed/analyzed",
                "fibre/fiber",
                "centres/centers",
                "sulphate/sulfate",
                "leucocytes/leukocytes",
                "signalling/signaling",
                "haemorrhage/hemorrhage",
                "paediatric/pediatric",
                "behavioural/behavioral",
            ]
        ),
    ],
    ids=lambda spellings: spellings[0],
)
def test_spellings_of_one_name_are_the_same_terms(spellings: list[str]) -> None:
    terms = tokenize(spellings[0])
    assert terms
    assert [tokenize(spelling) for spelling in spellings] == [terms] * len(spellings)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Does IL-6 reduce mortality?", ["il", "6", "reduc", "mortal"]),
        ("p < 0.05 in 1.2.3", ["p", "0.05", "1.2.3"]),
        ("trial.2 of n=40.", ["trial", "2", "n", "40"]),
        ("1,000 patients", ["1", "000", "patient"]),
        ("IL-6 and IL-6", ["il", "6", "il", "6"]),
        ("", []),
        ("?! -- …", []),
        ("the WHO of the who", ["who"]),
        ("All with ALL", ["all"]),
        ("Vitamin A", ["vitamin", "a"]),
        ("a protein; protein S's", ["protein", "protein", "s"]),
        ("don't", ["don"]),
        ("高血压", ["高血压"]),
    ],
)
def test_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert tokenize(text) == terms


def test_only_letters_and_digits_of_real_passages_matter() -> None:
    path = SHARED_DATA / "bioasq" / "corpus.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for _, line in zip(range(500), lines, strict=False)]
    for text in texts:
        assert tokenize(text.replace("-", " ")) == tokenize(text) == tokenize(f"«{text}»")
