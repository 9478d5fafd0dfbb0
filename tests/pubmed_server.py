"""NCBI's files of PubMed on loopback: baseline, updates, checksums, vectors and faults."""

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.loopback import serve_app

DIMENSION = 768


def article(
    pmid: int, text: str, *, year: int = 2020, revised: str = "2020-01-01", mesh: str = "Asthma"
) -> str:
    """Return the XML of a citation."""
    date = "".join(
        f"<{n}>{v}</{n}>" for n, v in zip(("Year", "Month", "Day"), revised.split("-"), strict=True)
    )
    return (
        f"<PubmedArticle><MedlineCitation><PMID "
        f"Version='1'>{pmid}</PMID><DateRevised>{date}</DateRevised>"
        f"<Article><Journal><JournalIssue><PubDate><Year>{year}</Year></PubDate></JournalIssue>"
        f"</Journal>"
        f"<ArticleTitle>On {pmid}</ArticleTitle><Abstract><AbstractText>{text}</AbstractText>"
        f"</Abstract>"
        "<Language>eng</Language></Article>"
        f"<MeshHeadingList><MeshHeading><DescriptorName>{mesh}</DescriptorName></MeshHeading>"
        f"</MeshHeadingList>"
        "</MedlineCitation></PubmedArticle>"
    )


def deletion(*pmids: int) -> str:
    """Return the XML that deletes citations."""
    return (
        "<DeleteCitation>" + "".join(f"<PMID>{pmid}</PMID>" for pmid in pmids) + "</DeleteCitation>"
    )


def citations(*parts: str) -> bytes:
    """Return a compressed file of citations."""
    return gzip.compress(f"<PubmedArticleSet>{''.join(parts)}</PubmedArticleSet>".encode(), mtime=0)


@dataclass
class PubMedServer:
    """Files by their paths, and what goes wrong with them."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[int | str]] = field(default_factory=dict)
    """Faults of the next requests of a path: a status, `cut` (broken connection) or `kill`."""
    ranges: bool = True
    """Whether parts of files can be asked for."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """The method, the path and the range of each request."""
    url: str = ""
    kill: Callable[[], None] = lambda: None
    """Called at the fault `kill`."""

    def add(self, path: str, *parts: str) -> None:
        """Add a file of citations with its checksum."""
        self.put(path, citations(*parts))

    def put(self, path: str, content: bytes) -> None:
        """Add any file with its checksum."""
        self.files[path] = content
        name, digest = path.rpartition("/")[2], hashlib.md5(content).hexdigest()
        self.files[f"{path}.md5"] = f"MD5({name})= {digest}\n".encode()

    def add_vectors(self, chunk: str, pmids: Sequence[int], vectors: np.ndarray) -> None:
        """Add a chunk of vectors, which has no checksum."""
        from io import BytesIO

        content = BytesIO()
        np.save(content, vectors)
        self.files[f"vectors/embeds_chunk_{chunk}.npy"] = content.getvalue()
        self.files[f"vectors/pmids_chunk_{chunk}.json"] = json.dumps(list(map(str, pmids))).encode()

    def downloads(self) -> list[str]:
        """Return the names of the files that were asked for, without checksums and listings."""
        names = (path.rpartition("/")[2] for method, path, _ in self.requests if method == "GET")
        return [name for name in names if name and not name.endswith(".md5")]

    def respond(self, request: Request) -> Response:
        """Answer a request as a file server does."""
        path = request.path_params["path"]
        asked = request.headers.get("range", "")
        self.requests.append((request.method, path, asked))
        fault = self.faults[path].pop(0) if self.faults.get(path) else None
        if fault == "kill":
            self.kill()
        if isinstance(fault, int):
            return PlainTextResponse("fault", fault)
        if path.endswith("/"):
            names = sorted(
                {name.removeprefix(path) for name in self.files if name.startswith(path)}
            )
            return HTMLResponse("".join(f'<a href="{name}">{name}</a>\n' for name in names))
        if (content := self.files.get(path)) is None:
            return PlainTextResponse("missing", 404)
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        headers = {"ETag": tag, "Accept-Ranges": "bytes"}
        start, status = 0, 200
        match = re.fullmatch(r"bytes=(\d+)-", asked)
        if match and self.ranges and request.headers.get("if-range") in (tag, None):
            start, status = int(match[1]), 206
            if start >= len(content):
                return PlainTextResponse("range", 416)
        body = content[start:]
        if fault == "cut":
            headers["Content-Length"] = str(len(body))
            return Response(body[: len(body) // 2], status, headers)
        return Response(body, status, headers)


@contextmanager
def serve_pubmed() -> Iterator[PubMedServer]:
    """Serve files on loopback."""
    server = PubMedServer()
    app = Starlette(routes=[Route("/{path:path}", server.respond, methods=["GET", "HEAD"])])
    with serve_app(app) as running:
        server.url = running.url
        yield server
