"""Time, memory and words of reading documents: PDF, Word, HTML, Markdown and JATS.

Each case runs in a process. The PDF of 200 pages, the Word file of 5 MB and the small files are
generated from a seed; the JATS articles come from `--data`. Memory is the peak of the process plus
that of its largest child process.

    python benchmarks/readers.py [--data ../shared/data] [--json FILE]
"""

import multiprocessing
import random
import resource
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from parts.pdf_pages import pdf_of
from parts.report import options, show, write

from briefcontext.knowledge import open_sources

PAGES = 200
ARTICLES = 100
SMALL_FILES = 7
"""Files of each of three formats."""
WORD_BYTES = 5_000_000
PARAGRAPHS = 300
"""Paragraphs and table rows of a small file."""
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SYLLABLES = "ba co di fe gu ha ji ko lu ma ne po qui ra se tu vi wo xe zy"


def main() -> None:
    """Print the figures of each case."""
    arguments = options(__doc__, "--data", "--json").parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pdf = Path(folder, "large.pdf")
        pdf.write_bytes(pdf_of(PAGES))
        cases = [
            (f"a PDF of {PAGES} pages", [pdf]),
            ("a Word file of 5 MB", large_word_file(Path(folder))),
            (f"{3 * SMALL_FILES} small files", small_files(Path(folder, "small"))),
        ]
        if (data := arguments.data / "pmc_nxml").is_dir():
            cases += [(path.stem, [path]) for path in sorted(data.glob("*.nxml"))]
            cases += [(f"{ARTICLES} JATS articles", copies(data, Path(folder, "articles")))]
        rows = [{"case": name, **isolated(read, paths)} for name, paths in cases]
    show("Reading", rows, {"seconds": ".2f", "memory, MB": ".0f"})
    write(arguments.json, rows)


def isolated(case: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return the figures of a case in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(case, *arguments).result()


def read(paths: list[Path]) -> dict[str, Any]:
    """Read files; count documents, rejects and words."""
    began = time.perf_counter()
    entries = [entry for source in open_sources(paths) for entry in source.entries()]
    seconds = time.perf_counter() - began
    texts = [entry.page_content for entry in entries if hasattr(entry, "page_content")]
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "documents": len(texts),
        "rejects": len(entries) - len(texts),
        "words": sum(len(text.split()) for text in texts),
        "seconds": seconds,
        "memory, MB": sum(usage.ru_maxrss for usage in usages) / 1000,
    }


def large_word_file(folder: Path) -> list[Path]:
    """A Word file of 5 MB: headings, paragraphs, and in every tenth place a table."""
    path, drawn = folder / "large.docx", random.Random(0)
    count = 1_000
    while not path.exists() or path.stat().st_size < WORD_BYTES:
        write_word(path, blocks(drawn, count))
        count = int(count * WORD_BYTES / path.stat().st_size * 1.02)
    return [path]


def small_files(folder: Path) -> list[Path]:
    """Small files of Word, HTML and Markdown with the same kinds of blocks."""
    folder.mkdir()
    writers = {"docx": write_word, "html": write_html, "md": write_markdown}
    for number in range(SMALL_FILES):
        for ending, writer in writers.items():
            writer(folder / f"{number}.{ending}", blocks(random.Random(number), PARAGRAPHS))
    return sorted(folder.iterdir())


def copies(data: Path, folder: Path) -> list[Path]:
    """Copies of the articles in a folder, each with its own number in its name."""
    folder.mkdir()
    articles = [path.read_bytes() for path in sorted(data.glob("*.nxml"))]
    for number in range(ARTICLES):
        (folder / f"{number}.nxml").write_bytes(articles[number % len(articles)])
    return sorted(folder.iterdir())


Block = tuple[str, list[list[str]]]
"""A heading (`h`), paragraph (`p`) or table (`t`), and its rows of cells."""


def blocks(drawn: random.Random, count: int) -> list[Block]:
    """Draw blocks: the same count of headings and tables, and eight paragraphs to each."""

    def words(count: int) -> str:
        return " ".join("".join(drawn.choices(SYLLABLES.split(), k=3)) for _ in range(count))

    def block(number: int) -> Block:
        if number % 10 == 0:
            return "h", [[words(3)]]
        if number % 10 == 9:
            return "t", [[words(1) for _ in range(3)] for _ in range(5)]
        return "p", [[f"{words(30)} {drawn.randrange(1000)} mg."]]

    return [block(number) for number in range(count)]


def write_word(path: Path, written: Iterable[Block]) -> None:
    """Write blocks as a Word document."""

    def paragraph(text: str, level: str = "") -> str:
        return f"<w:p>{level}<w:r><w:t>{text}</w:t></w:r></w:p>"

    def body(kind: str, rows: list[list[str]]) -> str:
        if kind != "t":
            heading = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>' if kind == "h" else ""
            return paragraph(rows[0][0], heading)
        cells = [[f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row] for row in rows]
        marks = ["<w:trPr><w:tblHeader/></w:trPr>", *[""] * (len(rows) - 1)]
        lines = [f"{mark}{''.join(row)}" for mark, row in zip(marks, cells, strict=True)]
        return f"<w:tbl>{''.join(f'<w:tr>{line}</w:tr>' for line in lines)}</w:tbl>"

    text = "".join(body(*block) for block in written)
    style = '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/>'
    style += '<w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>'
    parts = {
        "_rels/.rels": relations("officeDocument", "word/document.xml"),
        "word/_rels/document.xml.rels": relations("styles", "styles.xml"),
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{text}</w:body></w:document>',
        "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{style}</w:styles>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, xml in parts.items():
            file.writestr(name, xml)


def relations(kind: str, target: str) -> str:
    """The part of a Word document that names another one."""
    names = "http://schemas.openxmlformats.org/package/2006/relationships"
    link = f'<Relationship Id="r1" Type="{RELATIONS}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{names}">{link}</Relationships>'


def write_html(path: Path, written: Iterable[Block]) -> None:
    """Write blocks as a page."""

    def body(kind: str, rows: list[list[str]]) -> str:
        if kind != "t":
            tag = "h1" if kind == "h" else "p"
            return f"<{tag}>{rows[0][0]}</{tag}>"
        head, *others = rows
        names = "".join(f"<th>{cell}</th>" for cell in head)
        lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in others]
        return f"<table><tr>{names}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

    path.write_text("\n".join(body(*block) for block in written), encoding="utf-8")


def write_markdown(path: Path, written: Iterable[Block]) -> None:
    """Write blocks as Markdown."""

    def body(kind: str, rows: list[list[str]]) -> str:
        if kind != "t":
            return f"{'# ' if kind == 'h' else ''}{rows[0][0]}"
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], "|---|---|---|", *lines[1:]])

    path.write_text("\n\n".join(body(*block) for block in written) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
