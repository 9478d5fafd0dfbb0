"""The objects that `langgraph.json` names: the served graphs, their guard, and the page.

Clients name knowledge bases, models and documents from the owner's lists (`access.py`). The guard
allows the routes of `SERVED` and the page, and answers other paths with 403. With
BRIEFCONTEXT_TOKEN set (tokens separated by spaces), every route but the page's empty form and `/ok`
needs a token, and clients see only the threads and runs of their token. Without it, only this
machine is served.
"""

import json
import os
from typing import Any, ClassVar

from langgraph_sdk import Auth
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse
from starlette.routing import Match, Mount, Route
from starlette.types import Scope

from briefcontext.access import MAX_DOCUMENTS, Access
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.long_document import LongDocumentSettings
from briefcontext.graphs.resources import RESOURCES
from briefcontext.graphs.settings import Settings
from briefcontext.guard import Guard, Refused, admit, checked_tokens, read_json
from briefcontext.page.app import create_page, open_paths

STUDIO = ("https://smith.langchain.com", "https://eu.smith.langchain.com")
"""Sites of LangGraph Studio, whose pages send requests to this server."""
_BODY_BYTES = 2 * 1024 * 1024
"""Limit of a body, which may contain documents."""
_RUNS = ("/runs", "/runs/stream", "/runs/wait", "/runs/batch")
_ASSISTANT, _THREAD = "/assistants/{assistant}", "/threads/{thread:uuid}"
_THREADS_RUN = _THREAD + "/runs/{run:uuid}"
SERVED = {
    "GET": (
        *("/ok", "/info"),
        *(_ASSISTANT + path for path in ("", "/graph", "/schemas", "/subgraphs")),
        *(_THREAD + path for path in ("", "/state", "/state/{checkpoint}", "/history", "/runs")),
        *(_THREADS_RUN + path for path in ("", "/join", "/stream")),
    ),
    "POST": (
        *("/assistants/search", "/assistants/count", _ASSISTANT + "/versions"),
        *("/threads", "/threads/search", "/threads/count"),
        *(_THREAD + path for path in ("/state/checkpoint", "/history", "/copy")),
        *_RUNS,
        *(_THREAD + path for path in _RUNS[:3]),
        _THREADS_RUN + "/cancel",
    ),
    "PATCH": (_THREAD,),
    "DELETE": (_THREAD, _THREADS_RUN),
}
"""The served routes of LangGraph's API, by method."""
_CHANGES = ("create", "create_run", "update")

_tokens = checked_tokens(text) if (text := os.environ.get("BRIEFCONTEXT_TOKEN")) else ()
_access = Access.from_environment()


class _Served:
    """Settings with names instead of places."""

    file_links: ClassVar[bool] = False
    most_documents: ClassVar[int] = MAX_DOCUMENTS

    def resolved(self: Any) -> Any:
        """Return the settings with places instead of names."""
        return _access.resolved(self)


class ServedSettings(_Served, Settings):
    """How a question is answered. Every setting has a default."""


class ServedLongDocumentSettings(_Served, LongDocumentSettings):
    """How a question about a document is answered. Its file must be named."""


briefcontext = build_graph(settings=ServedSettings, resources=RESOURCES)
long_document = build_graph(
    settings=ServedLongDocumentSettings, name="LongDocument", resources=RESOURCES
)

auth = Auth()


@auth.authenticate
async def authenticate(scope: Scope) -> str:
    """Return the owner of the threads and runs that a request may see."""
    try:
        return admit(scope, _tokens)
    except Refused as error:
        raise Auth.exceptions.HTTPException(
            status_code=401 if error.status_code == 401 else 403, detail=error.detail
        ) from None


@auth.on
async def keep_apart(
    ctx: Auth.types.AuthContext, value: dict[str, Any]
) -> Auth.types.HandlerResult:
    """Restrict threads and runs to their owner."""
    owner = {"owner": ctx.user.identity}
    if ctx.resource == "assistants":
        return ctx.action in ("read", "search")
    if ctx.resource != "threads":
        return False
    if ctx.action in _CHANGES:
        if value.get("metadata") is None:
            value["metadata"] = {}
        value["metadata"].update(owner)  # In place: the server keeps using this mapping.
    return owner


def _checked(scope: Scope, body: bytes) -> bytes:
    """Refuse other paths, check the settings of runs, and fill in the defaults.

    The path is compared as LangGraph's router reads it: decoded, and with its case.
    """
    matches = [route.matches(scope)[0] for route in _routes]
    if Match.FULL not in matches and not (scope["method"] == "OPTIONS" and any(matches)):
        raise Refused(403, "This path is not served.")
    path, given = scope["path"], read_json(body)
    if path == "/threads" and isinstance(given, dict) and "supersteps" in given:
        raise Refused(403, "A thread starts empty. Leave out supersteps.")
    if scope["method"] != "POST" or not path.endswith(_RUNS) or path.startswith("/page/"):
        return body
    runs = [_checked_run(run) for run in (given if isinstance(given, list) else [given])]
    return json.dumps(runs if isinstance(given, list) else runs[0]).encode()


def _checked_run(run: object) -> dict[str, Any]:
    """Return a run with its settings. It stops when the waiting client leaves.

    A `command` could start any node with any state, so it is refused.
    """
    if not isinstance(run, dict):
        raise Refused(422, "A run is a JSON object with assistant_id and input.")
    if run.get("command"):
        raise Refused(403, "A run takes a question, and no command. Send it as input.")
    question = run.get("input")
    documents = question.get("documents") if isinstance(question, dict) else None
    if isinstance(documents, list) and len(documents) > MAX_DOCUMENTS:
        raise Refused(403, f"There are {len(documents)} documents: at most {MAX_DOCUMENTS}.")
    return {**run, "on_disconnect": "cancel", "context": _access.check(run.get("context"))}


_page = Mount("/page", app=create_page(ServedSettings(**_access.check({}))))
_routes = [
    Route("/page", lambda request: RedirectResponse("/page/")),
    _page,
    *(Route(path, _page, methods=[way]) for way, paths in SERVED.items() for path in paths),
]

app = Starlette(
    routes=_routes[:2],
    middleware=[
        Middleware(
            Guard,
            tokens=_tokens,
            open_paths={"/ok", "/page", *(f"/page{path}" for path in open_paths())},
            origins=STUDIO,
            check=_checked,
            body_bytes=_BODY_BYTES,
        ),
    ],
)
"""The page at `/page/`. The server adds its own routes, with the same guard."""
