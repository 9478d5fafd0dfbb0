"""The page's web application: static files, facts for the form, and streamed answers."""

import asyncio
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from briefcontext.access import check
from briefcontext.chains.question import check_earlier, check_question
from briefcontext.errors import BriefContextError, InputError
from briefcontext.graphs.graph import graph as ready_made
from briefcontext.graphs.resources import RESOURCES
from briefcontext.graphs.settings import Settings
from briefcontext.guard import Guard, checked_tokens, explain, read_json
from briefcontext.knowledge.demo import demo_questions
from briefcontext.knowledge.knowledge_base import DEMO, KnowledgeBase
from briefcontext.knowledge.store.filters import LABELLED
from briefcontext.page.choices import describe
from briefcontext.page.lines import JSONLines, listed, run
from briefcontext.page.reading import MOST_PAGES
from briefcontext.page.uploads import MOST_BODY_BYTES, MOST_BYTES, kinds, read_file, run_over

SECURITY_HEADERS: Mapping[str, str] = {
    # Trusted Types prevent text from becoming markup.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_FIRST_DEMO_QUESTIONS = (0, 23, 3, 17, 9, 41)
_TITLES = 6
"""Number of titles that become example questions."""
_MAX_LISTED_PASSAGES = 20_000
"""Largest base, in passages, whose titles are listed for examples."""
_ASK_FILE = "/api/ask/file"
_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def create_app(
    settings: Settings | None = None,
    *,
    token: str | None = None,
    graph: CompiledStateGraph[Any, Any, Any, Any] = ready_made,
    uploads: bool = False,
) -> Starlette:
    """Return the page as a guarded ASGI application.

    Args:
        settings: Settings of every question: knowledge base, model, limits. Visitors choose those
            of `choices.py`, never a file or a model.
        token: Bearer token of clients, or several, separated by spaces. Without one, only this
            machine is served.
        graph: Another graph, from `build_graph`.
        uploads: Whether visitors may ask about a file of theirs, which is not stored.

    Raises:
        InputError: The token cannot be used, or `uploads` on a system without limits for a process.
    """
    tokens = () if token is None else checked_tokens(token)
    large = {_ASK_FILE: MOST_BODY_BYTES} if uploads else {}
    guard = Middleware(Guard, tokens=tokens, open_paths=open_paths(), large=large)
    return create_page(settings, graph=graph, guard=guard, uploads=uploads)


def open_paths() -> set[str]:
    """Return the paths of the page's files, which are public."""
    return {"/", *(f"/{name}" for name in _assets())}


def create_page(
    settings: Settings | None = None,
    *,
    graph: CompiledStateGraph[Any, Any, Any, Any] = ready_made,
    guard: Middleware | None = None,
    uploads: bool = False,
) -> Starlette:
    """Return the page for an application that guards it, to mount at any path: see `create_app`."""
    if uploads and find_spec("resource") is None:  # Windows.
        raise InputError(
            "Files of visitors cannot be read on this system: it has no limits of time and memory "
            "for the process that "
            "reads them. Leave out --uploads, or serve from Linux, macOS or WSL."
        )
    fixed = (settings or Settings()).without_file_links()
    own, assets = graph is not ready_made, _assets()
    known = _about(fixed, own, uploads)

    async def asset(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in assets:
            raise HTTPException(404, "There is nothing here.")
        return assets[name]

    async def about(request: Request) -> Response:
        size, labels = (None, {}) if own else await asyncio.to_thread(_size_and_labels, fixed)
        examples = [] if own else await asyncio.to_thread(_examples, fixed)
        facts = {"size": size, "examples": examples, "settings": describe(fixed, labels)}
        return JSONResponse({**known, **facts})

    async def ask(request: Request) -> Response:
        given = await _read_json(request)
        question = _question(given)
        settings = check(given.get("settings"), fixed)
        dense = settings.retrieval.replace(
            "hybrid", "dense"
        )  # Of hybrid search the dense order is compared.
        ranking = "retrieved" if own else "re-ranked" if settings.cross_encoder else dense
        return JSONLines(run(graph, question, settings, ranking=ranking))

    async def ask_file(request: Request) -> Response:
        given = await _read_json(request)
        question = _question(given)
        settings = check(given.get("settings"), _over_one_file(fixed))
        return JSONLines(run_over(await read_file(given.get("file")), question, settings))

    async def whole_source(request: Request) -> Response:
        wanted = (await _read_json(request)).get("source_id")
        if own or not isinstance(wanted, str):
            raise HTTPException(404, "There is no such source.")
        result = await asyncio.to_thread(RESOURCES.source, fixed, wanted)
        return JSONResponse(listed(result))

    async def count(request: Request) -> Response:
        settings = check((await _read_json(request)).get("settings"), fixed)
        counted = None if own else await asyncio.to_thread(RESOURCES.filtered, settings)
        if counted is None:
            raise HTTPException(404, "What is read here cannot be counted.")
        return JSONResponse({"passages": counted[0], "all": counted[1]})

    routes = {
        "/ask": ask,
        "/count": count,
        "/source": whole_source,
        **({"/ask/file": ask_file} if uploads else {}),
    }
    api = [
        Route("/about", about),
        *(Route(path, answer, methods=["POST"]) for path, answer in routes.items()),
    ]
    return Starlette(
        routes=[Mount("/api", routes=api), Route("/", asset), Route("/{name}", asset)],
        middleware=[Middleware(_SecurityHeaders), *([guard] if guard else [])],
        exception_handlers={HTTPException: _explain, BriefContextError: _explain},
    )


class _SecurityHeaders:
    """Restricts the browser to the page's own files, with every reply."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _explain(request: Request, error: Exception) -> Response:
    return explain(error)


def _assets() -> dict[str, Response]:
    """Return the page's files by name."""
    paths = {
        file: _MEDIA_TYPES.get(PurePath(file.name).suffix)
        for file in files("briefcontext.page").iterdir()
    }
    return {
        file.name: Response(file.read_bytes(), media_type=kind)
        for file, kind in paths.items()
        if kind
    }


def _over_one_file(settings: Settings) -> Settings:
    """Return the settings for a document, with defaults for those of knowledge bases."""
    models = settings.model_dump(exclude={"years", *LABELLED, "knowledge_base", "preflight"})
    return type(settings)(
        **{**models, "retrieval": "hybrid", "route": "order_preserving", "document": None}
    )


def _about(settings: Settings, own: bool, uploads: bool) -> dict[str, Any]:
    """Return the facts for the form; `own` means another graph."""
    return {
        "version": version("briefcontext"),
        "own_graph": own,
        "sources": not own,
        "source": "the sources of its graph" if own else _source(settings),
        "model": settings.model,
        "extract_model": settings.extract_model,
        "uploads": {"kinds": kinds(), "bytes": MOST_BYTES, "pages": MOST_PAGES}
        if uploads
        else None,
    }


def _source(settings: Settings) -> str:
    """Return the name of the collection; for a path, only the last part."""
    if settings.document is not None:
        return f"the document {PurePath(settings.document).name}"
    if settings.knowledge_base == DEMO:
        return "the bundled demo knowledge base: texts written as a demonstration, not literature"
    if settings.knowledge_base.startswith("pubmed:"):
        return "live PubMed"
    return f"the knowledge base {PurePath(settings.knowledge_base).name}"


def _examples(settings: Settings) -> list[dict[str, Any]]:
    """Return questions to click, made from titles unless the base is the demo."""
    if settings.document is None and settings.knowledge_base == DEMO:
        rows = demo_questions()
        first = [rows[place] for place in _FIRST_DEMO_QUESTIONS]
        rows = [*first, *(row for row in rows if row not in first)]
        return [{"question": row["question"], "options": row.get("options", {})} for row in rows]
    try:
        base = RESOURCES.collection(settings)
    except BriefContextError:
        return []
    if not isinstance(base, KnowledgeBase) or len(base) > _MAX_LISTED_PASSAGES:
        return []
    titles = [str(each["title"]).strip(" .") for each in base.documents() if each["title"]]
    chosen = titles[:: max(1, len(titles) // _TITLES)][:_TITLES]
    ask = "What is known about {}?"
    return [
        {"question": title if title.endswith("?") else ask.format(title), "options": {}}
        for title in chosen
    ]


def _size_and_labels(settings: Settings) -> tuple[str | None, dict[str, list[str]]]:
    """Return the size and date of the collection, and the labels to filter by, if known."""
    try:
        return RESOURCES.size(settings), RESOURCES.labels(settings)
    except BriefContextError:
        return None, {}


def _question(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check a question, its options and its earlier questions; return the graph's input."""
    asked = check_question(given.get("question"), given.get("options"))
    return {
        "question": asked["text"],
        "options": asked["options"],
        "earlier": check_earlier(given.get("earlier")),
    }


async def _read_json(request: Request) -> Mapping[str, Any]:
    """Read a JSON object.

    Raises:
        HTTPException: The body is not an object (400).
    """
    given = read_json(await request.body())
    if not isinstance(given, dict):
        raise HTTPException(400, 'The request is not a JSON object. Send {"question": "…"}.')
    return given
