"""Documents of the field folder, and variants of each kind, are read right."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.formulas import formula_text
from tests.test_document_laws import word_file

FIELD = Path(__file__).resolve().parents[2] / "shared" / "field"
needs_field = pytest.mark.skipif(not FIELD.is_dir(), reason="../shared/field is missing")

DOSES = ["Drug: Morphine | Child dose: 0.1 mg/kg", "Drug: Codeine | Adult dose: 30 mg"]
TEXTS: dict[str, list[str]] = {
    "03-docx-checkboxes/protocol.docx": [
        "☒ do not give ☐ may be given",
        "☐ allowed ☒ contraindicated",
    ],
    "04-jats-tables/dosing.nxml": [
        "Creatinine clearance (ml/min): 10–50 | Dose: 250 mg | Interval: 12 h",
        "Creatinine clearance (ml/min): <10 | Dose: contraindicated",
        "In dialysis give 100 mg after each session.",
    ],
    "06-empty-cells/doses.docx": DOSES,
    "06-empty-cells/doses-th.html": DOSES,
    "07-list-numbers/anaphylaxis.docx": ["1. Give adrenaline", "4. If there is no response"],
    "07-list-numbers/anaphylaxis.html": ["3. Give adrenaline", "6. If there is no response"],
    "18-jats-variants/09-list-table.nxml": [
        "1. Give 2 g.",
        "3. Repeat step 1.",
        "1 1/2 tablets; platelets 150×10^9/L",
        "Key points\n\nNot in pregnancy.",
        "((140-age)/72)x^2√(16)",
    ],
    "19-accordion/drug.html": [
        "› Adults\n\nGive 500 mg",
        "› Children\n\nGive 10 mg",
        "› Do not give in\n\nPregnancy",
    ],
    "23-mathml/crcl.html": [
        "(140-age)×weight/(72×creatinine) in men",
        "measured/(0.2×albumin+0.1)",
        "√(height×weight/3600)",
        "QT/√(RR)",
        "SCr^-1.154 × age^-0.203",
    ],
}
METADATA: dict[str, dict[str, Any]] = {
    "05-retraction-title/retracted.nxml": {"retracted": True},
    "18-jats-variants/01-concern-forward.nxml": {"expression_of_concern": True},
    "18-jats-variants/03-string-name.nxml": {"authors": "Doe, JA; Roe, B Jr; Invented Study Group"},
    "18-jats-variants/04-no-contrib-type.nxml": {"authors": "Doe, J"},
    "18-jats-variants/07-partial-retraction.nxml": {"retraction_notice": True, "retracted": False},
}


def read(path: Path) -> Document:
    (source,) = open_sources([path])
    (entry,) = source.entries()
    assert isinstance(entry, Document), entry
    return entry


@needs_field
@pytest.mark.parametrize("name", TEXTS)
def test_a_document_of_the_field_is_read_right(name: str) -> None:
    text = read(FIELD / name).page_content
    assert [part for part in TEXTS[name] if part not in text] == []


@needs_field
@pytest.mark.parametrize("name", METADATA)
def test_the_metadata_of_a_document_of_the_field_are_read_right(name: str) -> None:
    metadata = read(FIELD / name).metadata
    assert {key: metadata.get(key) for key in METADATA[name]} == METADATA[name]


PAGES = {
    "<button onclick='open()'>Renal</button><div style='display:none'>Not below 10 ml/min.</div>": [
        "Renal",
        "Not below 10 ml/min.",
    ],
    "<h2>Dose</h2><details><summary>Children</summary><p>5 mg</p></details><p>Store cold.</p>": [
        "Dose",
        "Dose › Children",
        "5 mg",
        "Dose",
        "Store cold.",
    ],
    "<p>Give <span style='display:none'>10</span> 5 mg <i style='visibility: hidden'>no</i></p>": [
        "Give 5 mg"
    ],
    "<p><input type=checkbox checked> give <input type=radio> stop</p>": ["☒ give ☐ stop"],
    "<ol><li>One<li value=4>Four<li>Five</ol>": ["1. One", "4. Four", "5. Five"],
    "<p>1<sup>1</sup>/<sub>2</sub> tablets, 2<sup>1</sup>&frasl;<sub>4</sub></p>": [
        "1 1/2 tablets, 2 1⁄4"
    ],
    "<p>x<sup>n+1</sup>, (a)<sup>2</sup>, H<sub>2</sub>O, 10<sub>2</sub></p>": [
        "x^(n+1), (a)^2, H2O, 10_2"
    ],
    "<table><tr><td rowspan=2>A<td colspan=2>Dose<tr><td>oral<td>IV<tr><td>one<td>3<td>1</table>": [
        "A: one | Dose › oral: 3 | Dose › IV: 1"
    ],
    "<p>Shown.<sup>3</sup> Shown<sup><a href='#r4'>4</a></sup></p>": ["Shown.[3] Shown[4]"],
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_read_as_it_is_shown(tmp_path: Path, page: str) -> None:
    (tmp_path / "a.html").write_text(f"<body>{page}</body>", encoding="utf-8")
    assert read(tmp_path / "a.html").page_content.split("\n\n") == PAGES[page]


FORM = (
    '<w:p><w:r><w:t xml:space="preserve">In pregnancy: </w:t></w:r><w:r><w:fldChar '
    'w:fldCharType="begin"><w:ffData>{}</w:ffData></w:fldChar></w:r></w:p>'
)


@pytest.mark.parametrize(
    ("field", "state"),
    [
        ("<w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox>", "☒"),
        (
            "<w:ddList><w:result w:val='1'/><w:listEntry w:val='give'/><w:listEntry w:val='do not "
            "give'/></w:ddList>",
            "do not give",
        ),
    ],
)
def test_a_form_of_word_shows_its_state(tmp_path: Path, field: str, state: str) -> None:
    (tmp_path / "a.docx").write_bytes(word_file(FORM.format(field)))
    assert read(tmp_path / "a.docx").page_content == f"In pregnancy: {state}"


def test_a_numbered_list_of_word_continues_after_a_paragraph(tmp_path: Path) -> None:
    mark = '<w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr>'
    body = "".join(
        f"<w:p>{'' if text == 'Note' else mark}<w:r><w:t>{text}</w:t></w:r></w:p>"
        for text in ("Give", "Note", "Repeat")
    )
    level = '<w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/>'
    numbering = (
        f'<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0">{level}</w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    )
    (tmp_path / "a.docx").write_bytes(word_file(body, numbering))
    assert read(tmp_path / "a.docx").page_content == "1. Give\n\nNote\n\n2. Repeat"


SOURCE = """---
title: Doses
---
# Adults

Give 10^9^/L, H~2~O, ~~not 5 mg~~ 3 mg.

3. One
4. Two

| Drug | Adult | Child |
|------|-------|-------|
| A    |       | 1 mg  |
| B    | 2 mg  |       |

## Renal

Not below 10 ml/min.
"""
READ = [
    *("Doses", "Adults", "Give 10^9/L, H2O, 3 mg.", "3. One", "4. Two", "Drug: A | Child: 1 mg"),
    *("Drug: B | Adult: 2 mg", "Adults › Renal", "Not below 10 ml/min."),
]


def write(path: Path, *more: str) -> None:
    pypandoc = pytest.importorskip("pypandoc", reason="the extra documents is not installed")
    command = [
        pypandoc.get_pandoc_path(),
        "--standalone",
        "--from=markdown",
        f"--output={path}",
        *more,
    ]
    subprocess.run(command, input=SOURCE.encode(), check=True)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["docx", "epub", "rtf"])
def test_a_document_reads_the_same_in_each_format(tmp_path: Path, ending: str) -> None:
    write(tmp_path / f"a.{ending}")
    assert read(tmp_path / f"a.{ending}").page_content.split("\n\n") == READ


@pytest.mark.slow
def test_slides_keep_exponents_and_cells(tmp_path: Path) -> None:
    write(tmp_path / "a.pptx")
    blocks = read(tmp_path / "a.pptx").page_content.split("\n\n")
    assert [block for block in (*READ[:3], *READ[5:7]) if block not in blocks] == []


def test_latex_is_read_with_its_formulas_on_one_line(tmp_path: Path) -> None:
    text = r"\section{Renal} Clearance is $\frac{(140-a) \times w}{72c}$, in $10^9$/L; 5 \%."
    (tmp_path / "a.tex").write_text(text, encoding="utf-8")
    blocks = read(tmp_path / "a.tex").page_content.split("\n\n")
    assert blocks == ["Renal", "Clearance is (140-a)×w/(72c), in 10^9/L; 5 %."]


ARTICLE = (
    "<article{}><front><article-meta><article-id pub-id-type='pmc'>1</article-id>{}</article-meta>"
    "</front><body><p>Text.</p></body></article>"
)
GROUP = "<title-group><article-title>{}</article-title>{}</title-group>"


def article(folder: Path, meta: str, attributes: str = "") -> Document:
    (folder / "a.nxml").write_text(ARTICLE.format(attributes, meta), encoding="utf-8")
    return read(folder / "a.nxml")


@pytest.mark.parametrize(
    ("title", "retracted"),
    [
        ("Retraction: Bees", True),
        ("WITHDRAWN: Bees", True),
        ("Retraction of the uterus: a trial", False),
    ],
)
def test_a_title_that_marks_a_retraction_counts(
    tmp_path: Path, title: str, retracted: bool
) -> None:
    assert article(tmp_path, GROUP.format(title, "")).metadata["retracted"] == retracted


@pytest.mark.parametrize(
    ("contributor", "author"),
    [
        (
            "<string-name><surname>Doe</surname><given-names>J A</given-names></string-name>",
            "Doe, JA",
        ),
        ("<name><surname>Doe</surname><suffix>III</suffix></name>", "Doe, III"),
        (
            "<collab>Bee Group<contrib-group><contrib contrib-type='author'><name><surname>Roe"
            "</surname></name></contrib></contrib-group></collab>",
            "Bee Group",
        ),
    ],
)
def test_an_author_is_named_however_the_name_is_marked_up(
    tmp_path: Path, contributor: str, author: str
) -> None:
    group = f"<contrib-group><contrib>{contributor}</contrib></contrib-group>"
    editors = (
        "<contrib-group content-type='editors'><contrib><collab>No</collab></contrib>"
        "</contrib-group>"
    )
    assert article(tmp_path, group + editors).metadata["authors"] == author


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\sqrt{\frac{a \times b}{3600}}", "√(a×b/3600)"),
        (r"\frac{a}{72 \times b}", "a/(72×b)"),
        (r"\frac{140 - {age}}{72}x^{2}", "((140-age)/72)x^2"),
        (r"1\frac{1}{2}", "1 1/2"),
        (r"{SCr}^{- 1.154}", "SCr^-1.154"),
        (r"{Ca}^{2+}", "Ca^2+"),
        (r"e^{a+b}", "e^(a+b)"),
        (r"5\ \text{mg per kg} \leq 10^{9}", "5 mg per kg≤10^9"),
        (r"\begin{matrix}a & b\\c & d\end{matrix}", "a b; c d"),
    ],
)
def test_a_formula_keeps_its_grouping_on_one_line(tex: str, text: str) -> None:
    assert formula_text(tex) == text
