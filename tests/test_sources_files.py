import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.sources.files import open_sources
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
        ("a.xml", PUBMED, Deletion("3")),
        ("a.xml", b"<?xml version='1.0' encoding='UTF-16'?>".decode().encode("utf-16"), "not XML"),
        ("a.nxml", JATS, "10.1/x"),
        ("a.txt", b"A text.", "root/a.txt"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzipped"])
def test_the_format_follows_from_name_and_root_element(
    tmp_path: Path, name: str, content: bytes, entry: Entry | str, packed: bool
) -> None:
    path = tmp_path / "root" / (f"{name}.gz" if packed else name)
    path.parent.mkdir()
    path.write_bytes(gzip.compress(content) if packed else content)
    if entry == "not XML":
        with pytest.raises(KnowledgeBaseError, match="begin like XML"):
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


def test_unusable_files_of_a_folder_are_skipped_with_a_reason(tmp_path: Path) -> None:
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
        "b.xlsx": "--loader",
        "c.jsonl": "--field text=COLUMN",
        "d.xml": "root element html",
        "e.xml": "XML",
        "f/queries.jsonl": "questions",
    }
    sources = open_sources([tmp_path])
    skipped = {
        Path(file.name).relative_to(tmp_path).as_posix(): file.reason
        for file in skipped_of(sources)
    }
    assert skipped.keys() == expected.keys()
    assert [name for name, reason in expected.items() if reason not in skipped[name]] == []
    assert names(sources, tmp_path) == ["a.jsonl", "f/corpus.jsonl", *expected]
    assert len(skipped_of(open_sources([tmp_path / "**"]))) == len(expected) - 1
    with pytest.raises(KnowledgeBaseError, match="cannot be indexed"):
        open_sources([tmp_path / "d.xml"])
    with pytest.raises(KnowledgeBaseError, match="Nothing in"):
        open_sources([tmp_path / "d*.xml"])


def test_a_document_id_is_its_path_from_the_given_folder(
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


def test_records_of_a_truncated_gzip_file_are_kept(tmp_path: Path) -> None:
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
