"""What `langgraph.json` names: the graphs as they are served, whom the server answers, and the page beside them.

Graphs take names, and no paths (`access.py`). One guard stands before every route of the API and the page. With
BRIEFCONTEXT_TOKEN set (several tokens: with spaces between), every route but the page's empty form and `/ok`, which
says that the server runs, asks for one, and the threads and runs of one token are not another's. Without it, only this
machine is answered.
"""

import json
import os
import re
from dataclasses import replace
from typing import Any

from langgraph_sdk import Auth
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Scope

from briefcontext.access import served
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.long_document import LongDocumentSettings
from briefcontext.graphs.settings import Settings
from briefcontext.guard import Guard, Limits, Refused, admit, checked_tokens, objects, refusal
from briefcontext.page.app import create_page, open_paths

STUDIO = ("https://smith.langchain.com", "https://eu.smith.langchain.com")
"""The pages of LangGraph Studio, which a browser loads from there and which ask here."""
_BODY_BYTES = 2 * 1024 * 1024
"""Documents may come along with a question."""
_RUN = re.compile(r"/runs(/stream|/wait|/batch)?$")
_NOT_SERVED = ("state", "commands", "stream/events")
_CHANGES = ("create", "create_run", "update")

_tokens = checked_tokens(given) if (given := os.environ.get("BRIEFCONTEXT_TOKEN")) else ()
_settings = served(Settings)

briefcontext = build_graph(settings=_settings)
long_document = build_graph(settings=served(LongDocumentSettings), name="LongDocument")

auth = Auth()


@auth.authenticate
async def authenticate(scope: Scope) -> str:
    """Return whose threads and runs a request may see: those of its token, or of this machine."""
    try:
        return admit(scope, _tokens)
    except Refused as error:
        raise Auth.exceptions.HTTPException(
            status_code=401 if error.status_code == 401 else 403, detail=error.detail
        ) from None


@auth.on
async def keep_apart(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> Auth.types.HandlerResult:
    """Keep threads and runs to their owner. The graphs are the server's, and nothing runs at set times."""
    owner = {"owner": ctx.user.identity}
    if ctx.resource == "assistants":
        return ctx.action in ("read", "search") or not _tokens
    if ctx.resource != "threads":
        return False
    if ctx.action in _CHANGES:
        if value.get("metadata") is None:
            value["metadata"] = {}
        value["metadata"].update(owner)  # In place: the server goes on with this very mapping.
    return owner


def _asked(path: str, body: bytes) -> tuple[int, bytes]:
    """Return how many runs a request starts, each with a question, and its body.

    A `command` would start any node, as often as it says, with a state of the client's own: a question could then be
    longer, and its documents more, than is checked, and one request be thousands of model calls. A run stops when the
    client that waits for it leaves, unless it wants otherwise.
    """
    if not _RUN.search(path):
        return int(path.endswith("/api/ask")), body
    runs = objects(body)
    if any(run.get("command") for run in runs):
        raise Refused(403, "A run takes a question, and no command. Send it as input.")
    if len(runs) == 1 and not path.endswith("/batch"):
        body = json.dumps({"on_disconnect": "cancel", **runs[0]}).encode()
    return max(1, len(runs)), body


async def _not_served(request: Request) -> Response:
    return refusal(404, "This is not served: ask by a run, which stops with its client and takes a question.")


app = Starlette(
    routes=[
        Route("/page", lambda request: RedirectResponse("/page/")),
        Mount("/page", app=create_page(_settings())),
        *(Route(f"/threads/{{id}}/{way}", _not_served, methods=["POST"]) for way in _NOT_SERVED),
    ],
    middleware=[
        Middleware(
            Guard,
            tokens=_tokens,
            open_paths={"/ok", "/page", *(f"/page{path}" for path in open_paths())},
            origins=STUDIO,
            asked=_asked,
            limits=replace(Limits.from_environment(), body_bytes=_BODY_BYTES),
        ),
    ],
)
"""The page, below `/page/`. The server adds its own routes, behind the same guard."""
