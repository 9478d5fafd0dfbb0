"""A base of all of PubMed, projected from the rates of each step on this machine.

100,000 citations are generated as four PubMed files with NCBI's vectors, served on loopback, and
built as `briefcontext pubmed build --embeddings` does. Each step is measured alone. The last row is
the build without its indexes: there a process parses while another matches and writes.

    python benchmarks/pubmed.py [--records 100000] [--work DIR] [--json FILE]
"""

import gzip
import hashlib
import http.server
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

import lance
import numpy as np
from parts.generated import BLOCK, DIMENSION, FIRST_PMID, Literature
from parts.measured import Given, counted
from parts.report import Row, options, show, write

from briefcontext.knowledge.build import build_knowledge_base, ingest
from briefcontext.knowledge.pubmed.releases import (
    BASELINE,
    PUBMED_VARIABLE,
    VECTORS_VARIABLE,
    Mirror,
    Options,
    Vectors,
    release_sources,
)
from briefcontext.knowledge.sources.pubmed_xml import read_pubmed_xml
from briefcontext.knowledge.sources.source import open_content

PUBMED = 39_000_000
"""Citations in the baseline of 2026, of which about 60% have an abstract."""
CITATION = (
    "<PubmedArticle><MedlineCitation><PMID Version='1'>{pmid}</PMID><DateRevised><Year>2024</Year>"
    "<Month>05</Month><Day>06</Day></DateRevised><Article><Journal><JournalIssue><PubDate><Year>"
    "{year}</Year></PubDate></JournalIssue><Title>Generated</Title></Journal><ArticleTitle>"
    "Article {pmid}</ArticleTitle>"
    "<Abstract><AbstractText>{text}</AbstractText></Abstract><AuthorList><Author>"
    "<LastName>Author</LastName><Initials>A</Initials></Author></AuthorList>"
    "<Language>eng</Language>"
    "<PublicationTypeList><PublicationType>Journal Article</PublicationType></PublicationTypeList>"
    "</Article><MeshHeadingList><MeshHeading><DescriptorName>Heading {heading}</DescriptorName>"
    "</MeshHeading></MeshHeadingList></MedlineCitation></PubmedArticle>\n"
)


def main() -> None:
    """Measure the steps and the whole, and project them."""
    parser = options(__doc__, "--work", "--json")
    parser.add_argument("--records", type=int, default=100_000, help="citations to generate")
    given = parser.parse_args()
    steps = ("download", "parse", "match vectors", "indexes", "parse, match and write")
    spent = {step: np.zeros(2) for step in steps}
    for method in ("create_index", "create_scalar_index"):
        plain = getattr(lance.LanceDataset, method)
        setattr(lance.LanceDataset, method, counted(spent, "indexes")(plain))
    with tempfile.TemporaryDirectory(dir=given.work) as name:
        site, downloads = Path(name) / "site", Path(name) / "downloads"
        bytes_served = write_site(site, given.records)
        with served(site) as url:
            os.environ |= {PUBMED_VARIABLE: url, VECTORS_VARIABLE: f"{url}vectors/"}
            with closing(Mirror(downloads, keep=True)) as mirror:
                releases = mirror.releases(BASELINE)
                with counted(spent, "download"):
                    paths = [mirror.download(each).get(each.name) for each in releases]
                    vectors = Vectors(mirror.vectors, mirror.chunks())
                    vectors.find(str(FIRST_PMID))
                with counted(spent, "parse"):
                    pmids = [pmid for path in paths for pmid in parsed(path)]
                with counted(spent, "match vectors"):
                    found = sum(vectors.find(pmid) is not None for pmid in pmids)
                assert found == given.records
                chosen = Options(embeddings=True)
                sources = release_sources(mirror, releases, chosen, vectors=vectors)
                with counted(spent, steps[-1]):
                    build_knowledge_base(sources, Path(name) / "kb", encoder=Given())
    spent[steps[-1]] -= spent["indexes"]
    rows: list[Row] = [
        {
            "step": step,
            "s": seconds,
            "CPU-s": cpu,
            "records a second": given.records / seconds,
            "PubMed, hours": PUBMED / given.records * seconds / 3600,
        }
        for step, (seconds, cpu) in spent.items()
    ]
    show(f"{given.records:,} citations, {bytes_served / 1e6:,.0f} MB", rows, form=",.1f")
    write(given.json, rows)


def parsed(path: Path) -> Iterator[str]:
    """Yield the PMIDs of a file, with the digests that a build makes of its records."""
    with open_content(path) as (stream, _):
        for record in ingest.gather_records(read_pubmed_xml(stream)):
            yield record.source_id if isinstance(record, ingest.Record) else ""


def write_site(site: Path, records: int) -> int:
    """Write files as NCBI lays them out, and return their bytes."""
    literature = Literature()
    for folder in ("baseline", "updatefiles", "vectors"):
        (site / folder).mkdir(parents=True)
    pmids: list[str] = []
    vectors = []
    parts: list[str] = []
    for block in range(-(-records // BLOCK)):
        vectors.append(literature.vectors(block))
        for text in literature.texts(block):
            pmid = FIRST_PMID + len(pmids)
            pmids.append(str(pmid))
            parts.append(
                CITATION.format(
                    pmid=pmid, year=1975 + pmid % 50, text=escape(text), heading=pmid % 100
                )
            )
    each = -(-records // 4)
    for number in range(4):
        articles = "".join(parts[number * each : (number + 1) * each])
        content = f"<PubmedArticleSet>{articles}</PubmedArticleSet>"
        data, name = gzip.compress(content.encode(), 6), f"pubmed26n{number + 1:04}.xml.gz"
        (site / "baseline" / name).write_bytes(data)
        (site / "baseline" / f"{name}.md5").write_text(
            f"MD5({name})= {hashlib.md5(data).hexdigest()}\n"
        )
    np.save(site / "vectors" / "embeds_chunk_0.npy", np.concatenate(vectors)[:records])
    (site / "vectors" / "pmids_chunk_0.json").write_text(json.dumps(pmids[:records]))
    assert vectors[0].shape[1] == DIMENSION
    return sum(file.stat().st_size for file in site.rglob("*") if file.is_file())


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder on loopback."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()
