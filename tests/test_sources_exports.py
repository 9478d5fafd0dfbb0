"""PubMed's and reference managers' exports: MEDLINE text and RIS."""

from pathlib import Path

import pytest
from langchain_core.documents import Document

from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import Entry, Reject

FIELD = Path(__file__).resolve().parents[2] / "shared" / "field"
MEDLINE = """
PMID- 1001
OWN - NLM
LR  - 20230405
VI  - 12
IP  - 4
DP  - 2019 Apr
TI  - A toy drug in toy fever: a randomized
      trial.
LID - 7300815 [pii]
LID - 10.1000/toy.1 [doi]
AB  - BACKGROUND: Toy fever is common. RESULTS: 10^9/L and p < 0.05
      in all.
FAU - van der Doe, Jane A
AU  - van der Doe JA Jr
CN  - TOY MIND
AU  - Roe B 3rd
LA  - eng
PT  - Journal Article
PT  - Randomized Controlled Trial
TA  - Toy J
JT  - Toy journal
MH  - *Fever/drug therapy
UIN - Toy J. 2021. PMID: 1002

PMID- 1002
TI  - Retraction of a trial.
PT  - Retraction Notice
ROF - Toy J. 2019. PMID: 1003

PMID- none
TI  - A record without a number.

PMID- 1003
TI  - A retracted trial.
RIN - Toy J. 2021. PMID: 1002
"""
RIS = """TY  - JOUR
TI  - RETRACTED: A toy drug in toy fever
AU  - Doe, Jane
T2  - Toy journal
PY  - 2022/03/04
SP  - 12
EP  - 19
AB  - It helped.
AN  - 1004
KW  - Fever
ER  -

TY  - JOUR
T1  - A second one
DO  - 10.1000/toy.2
N1  - PMID: 1005
ER  -

TY  - GEN
AU  - Doe, Jane
ER  -
"""


def entries(path: Path, content: str) -> list[Entry]:
    path.write_text(content)
    (source,) = open_sources(path)
    return list(source.entries())


@pytest.mark.parametrize("name", ["set.nbib"])
def test_medline_text_is_read_as_records(tmp_path: Path, name: str) -> None:
    first, notice, reject, retracted = entries(tmp_path / name, MEDLINE)
    assert isinstance(first, Document)
    assert first.page_content.endswith("RESULTS: 10^9/L and p < 0.05 in all.")
    assert first.metadata == {
        **{"source_id": "1001", "kind": "abstract", "chunk_index": 0, "start": 0, "end": 69},
        "title": "A toy drug in toy fever: a randomized trial.",
        "authors": "van der Doe, JA Jr; TOY MIND; Roe, B 3rd",
        **{"volume": "12", "issue": "4", "pages": "7300815", "year": 2019},
        **{"doi": "10.1000/toy.1", "url": "https://pubmed.ncbi.nlm.nih.gov/1001/"},
        **{"journal": "Toy journal", "journal_abbreviation": "Toy J", "languages": "eng"},
        "publication_types": "Journal Article; Randomized Controlled Trial",
        **{"mesh": "Fever", "revised": "2023-04-05", "version": 1, "updated_by": "1002"},
        **{"retracted": False, "retraction_notice": False},
    }
    assert isinstance(notice, Document)
    assert notice.metadata["retraction_notice"]
    assert notice.metadata["retraction_of"] == "1003"
    assert isinstance(reject, Reject)
    assert "PMID" in reject.reason
    assert isinstance(retracted, Document)
    assert retracted.metadata["retracted"]


def test_ris_is_read_as_records(tmp_path: Path) -> None:
    first, second, reject = entries(tmp_path / "zotero.ris", RIS)
    assert isinstance(first, Document)
    assert (first.id, first.page_content) == ("1004", "It helped.")
    names = ("pmid", "retracted", "pages", "year", "authors", "journal")
    known = ("1004", True, "12-19", 2022, "Doe, Jane", "Toy journal")
    assert tuple(first.metadata[name] for name in names) == known
    assert isinstance(second, Document)
    assert (second.id, second.metadata["doi"]) == ("1005", "10.1000/toy.2")
    assert second.metadata["kind"] == "title"
    assert isinstance(reject, Reject)


@pytest.mark.skipif(not FIELD.is_dir(), reason="the field inputs are not there")
@pytest.mark.parametrize("name", ["pubmed-examplomy-set.txt", "pubmed-examplomy-set.nbib"])
def test_field_exports_keep_a_retraction(name: str) -> None:
    (source,) = open_sources(FIELD / "10-medline-export" / name)
    first, second = source.entries()
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert (first.id, first.metadata["retracted"]) == ("90000011", True)
    assert (second.id, second.metadata["retracted"]) == ("90000012", False)


@pytest.mark.parametrize(
    ("lines", "pmid"),
    [
        ("AN  - 904\nDB  - PubMed", "904"),
        ("AN  - 904\nDB  - Embase", None),
        ("N1  - PMID: 904.", "904"),
    ],
)
def test_a_pmid_is_read_from_a_ris_file(tmp_path: Path, lines: str, pmid: str | None) -> None:
    (entry,) = entries(tmp_path / "set.ris", f"TY  - JOUR\nTI  - A toy trial\n{lines}\n")
    assert isinstance(entry, Document)
    assert entry.metadata.get("pmid") == pmid
