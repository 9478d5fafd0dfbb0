import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.sources.files import READER_VERSION, open_sources
from briefcontext.knowledge.sources.source import Deletion, Entry, Reject, Source
from tests.knowledge_bases import skipped_of

ROW = b'{"id": "a", "title": "A title", "text": "A text."}\n'
PUBMED = b"<PubmedArticleSet><DeleteCitation><PMID>3</PMID></DeleteCitation></PubmedArticleSet>"
JATS = (
    b"<article><front><article-meta><article-id pub-id-type='doi'>10.1/x</article-id>"
    b"<title-group><article-title>T</article-title></title-group></article-meta></front></article>"
)
LIST_OF_FILES = b'{"file": "a.xml", "bytes": 3}\n'


def write(folder: Path, **files: bytes) -> Path:
    """Files by name, where `__` is a dot and `_in_` a folder."""
    for name, content in files.items():
        path = folder / name.replace("_in_", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def names(sources: Sequence[Source], folder: Path) -> list[str]:
    return [Path(source.name).relative_to(folder).as_posix() for source in sources]


def ids(source: Source) -> list[str | None]:
    return [entry.id for entry in source.entries() if isinstance(entry, Document)]


def one(path: Path, format: str = "auto") -> Source:
    (source,) = open_sources([path], format=format)
    return source


@pytest.mark.parametrize(
    ("name", "content", "entry"),
    [
        ("a.jsonl", ROW, "a"),
        ("a.ndjson", ROW, "a"),
        ("A.JSONL", ROW, "a"),
        ("a.xml", PUBMED, Deletion("3")),
        ("a.xml", b"<?xml version='1.0' encoding='UTF-16'?>".decode().encode("utf-16"), "not XML"),
        ("a.xml", PUBMED.decode().encode("utf-16"), Deletion("3")),
        ("a.xml", b"<!-- " + b"x" * 5000 + b" -->" + JATS, "10.1/x"),
        ("a.nxml", JATS, "10.1/x"),
        ("a.txt", b"A text.", "root/a.txt"),
        ("a.md", b"A text.", "root/a.md"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzipped"])
def test_the_format_is_told_by_name_and_root_element(
    tmp_path: Path, name: str, content: bytes, entry: Entry | str, packed: bool
) -> None:
    path = tmp_path / "root" / (f"{name}.gz" if packed else name)
    path.parent.mkdir()
    path.write_bytes(gzip.compress(content) if packed else content)
    if entry == "not XML":
        with pytest.raises(
            KnowledgeBaseError, match="cannot be indexed: it does not begin like XML"
        ):
            open_sources([path])
        return
    (found,) = one(path).entries()
    if isinstance(found, Document):
        assert found.id == (f"{entry}.gz" if packed and "/a." in str(entry) else entry)
    else:
        assert found == entry


def test_folders_are_read_to_their_depths_in_order_without_what_is_hidden(tmp_path: Path) -> None:
    write(tmp_path, b__jsonl=ROW, a_in_z__jsonl=ROW, a_in_b_in_y__txt=b"x", c__jsonl=ROW)
    write(tmp_path, __hidden__jsonl=ROW, __git_in_x__txt=b"x")
    sources = open_sources([tmp_path])
    assert names(sources, tmp_path) == ["a/b/y.txt", "a/z.jsonl", "b.jsonl", "c.jsonl"]
    assert skipped_of(sources) == []


def test_a_link_to_a_folder_above_is_not_followed_for_ever(tmp_path: Path) -> None:
    write(tmp_path, a_in_b__jsonl=ROW)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    assert names(open_sources([tmp_path]), tmp_path) == ["a/b.jsonl"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.jsonl", ["a.jsonl"]),
        ("**/*.jsonl", ["a.jsonl", "f/b.jsonl", "f/g/c.jsonl"]),
        ("f/*/*", ["f/g/c.jsonl"]),
        ("[a-f]/b.*", ["f/b.jsonl"]),
        ("?.jsonl", ["a.jsonl"]),
    ],
)
def test_globs(tmp_path: Path, pattern: str, found: list[str]) -> None:
    write(tmp_path, a__jsonl=ROW, f_in_b__jsonl=ROW, f_in_g_in_c__jsonl=ROW)
    assert names(open_sources([tmp_path / pattern]), tmp_path) == found


def test_what_cannot_be_a_source_is_skipped_in_a_folder_and_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        a__jsonl=ROW,
        b__xlsx=b"PK",
        c__jsonl=LIST_OF_FILES,
        d__xml=b"<html/>",
        e__xml=b"no",
    )
    write(tmp_path, f_in_corpus__jsonl=ROW, f_in_queries__jsonl=ROW)
    expected = {
        "b.xlsx": "a loader reads it: briefcontext index FILE --kb DIR --loader "
        "langchain_community.document_loaders:UnstructuredExcelLoader",
        "c.jsonl": "its rows have no column 'text' or 'content' or 'contents', but 'file', 'bytes' "
        "(name the one of the text: index --field text=COLUMN)",
        "d.xml": "its root element html is neither PubMed's nor JATS",
        "e.xml": "it does not begin like XML",
        "f/queries.jsonl": "it holds questions, by its name",
    }
    sources = open_sources([tmp_path])
    skipped = {
        Path(file.name).relative_to(tmp_path).as_posix(): file.reason
        for file in skipped_of(sources)
    }
    assert skipped == expected
    assert names(sources, tmp_path) == ["a.jsonl", "f/corpus.jsonl", *expected]
    assert len(skipped_of(open_sources([tmp_path / "**"]))) == len(expected) - 1
    for name in list(expected)[:4]:
        with pytest.raises(KnowledgeBaseError) as raised:
            open_sources([tmp_path / name])
        assert f"{tmp_path / name} cannot be indexed: {expected[name]}." in str(raised.value)
        with pytest.raises(
            KnowledgeBaseError, match=r"Nothing in .* can be indexed; 1 skipped, the first "
        ):
            open_sources([tmp_path / f"{name[0]}*{name[2:]}"])
    assert ids(one(tmp_path / "f" / "queries.jsonl")) == ["a"]


def test_a_document_is_named_by_its_way_from_the_folder_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, guidelines_in_asthma__md=b"x", guidelines_in_old_in_gout__txt=b"x")
    asthma, gout = ["guidelines/asthma.md"], ["guidelines/old/gout.txt"]
    root = tmp_path / "guidelines"
    for path in (root, root / "**", str(root / "old") + "/../../guidelines"):
        assert [ids(source) for source in open_sources([path])] == [asthma, gout]
    assert ids(one(root / "asthma.md")) == asthma
    assert ids(one(root / "old")) == ["old/gout.txt"]
    monkeypatch.chdir(root)
    assert [ids(source) for source in open_sources(["."])] == [asthma, gout]
    assert ids(one(Path("asthma.md"))) == asthma


def test_a_fingerprint_stands_for_content_and_for_how_it_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        a__jsonl=ROW,
        b__jsonl=ROW,
        c__jsonl=ROW + ROW,
        a__md=b"x",
        b__md=b"x",
        a__txt=b"x",
    )
    by_name = {Path(source.name).name: source.fingerprint for source in open_sources([tmp_path])}
    assert all(
        fingerprint.startswith("sha256:") and len(fingerprint) == 71
        for fingerprint in by_name.values()
    )
    assert by_name["a.jsonl"] == by_name["b.jsonl"]
    assert len(set(by_name.values())) == 5
    (mapped,) = open_sources([tmp_path / "a.jsonl"], fields={"text": "text"})
    assert mapped.fingerprint != by_name["a.jsonl"]
    assert one(tmp_path / "a.md", format="text").fingerprint != by_name["a.md"]
    assert one(tmp_path / "a.jsonl").fingerprint == by_name["a.jsonl"]
    assert READER_VERSION == 19


@pytest.mark.skipif(os.name != "posix", reason="file names of any bytes exist on POSIX only")
@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_a_file_whose_name_is_no_utf8_is_rejected_alone(tmp_path: Path, ending: str) -> None:
    write(tmp_path, a__jsonl=ROW)
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9." + ending.encode()))
    path.write_bytes(ROW)
    taken, skipped = open_sources([tmp_path])
    assert ids(taken) == ["a"]
    assert skipped.name == f"{tmp_path}/\N{REPLACEMENT CHARACTER}.{ending}"
    (reject,) = skipped.entries()
    assert reject == Reject("the whole file", "It was skipped: its path is not UTF-8; rename it.")
    with pytest.raises(KnowledgeBaseError, match="its path is not UTF-8; rename it"):
        open_sources(path)


def test_all_records_that_a_cut_off_gzip_file_still_holds_are_kept(tmp_path: Path) -> None:
    deletions = "".join(
        f"<DeleteCitation><PMID>{n}</PMID><x>{n**99}</x></DeleteCitation>" for n in range(1, 800)
    )
    packed = gzip.compress(f"<PubmedArticleSet>{deletions}</PubmedArticleSet>".encode())
    cut = packed[: len(packed) // 2]
    (tmp_path / "a.xml.gz").write_bytes(cut)
    complete = zlib.decompressobj(wbits=31).decompress(cut).count(b"</DeleteCitation>")
    *kept, last = one(tmp_path / "a.xml.gz").entries()
    assert kept == [Deletion(str(n)) for n in range(1, complete + 1)]
    assert complete > 100
    assert isinstance(last, Reject)
    assert last.reason.startswith("The compressed data is damaged: ")
