"""Provider batches: requests are written to a file instead of sent, and replies read from one.

A batch replaces the network of the OpenAI client.
"""

import json
from pathlib import Path
from typing import Any

import httpx2

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.rows import json_rows
from briefcontext.evaluation.methods.models import ReplyWantedError
from briefcontext.files import json_line, sha256, write_whole

URL = "/v1/chat/completions"
MAX_REQUESTS = 50_000
MAX_BYTES = 190_000_000
"""OpenAI accepts 50,000 requests and 200 MB in a batch."""
_KEPT_STATUS = frozenset({200, 400, 415, 422})
"""Answers, and refusals of a request's form, after which another form is tried."""


class Batch:
    """The requests and replies of a run by batches, in its folder `batch`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._wanted: dict[str, dict[str, Any]] = {}
        imported = sorted(folder.glob("replies-*.jsonl"))
        self._replies = {row["custom_id"]: row for file in imported for _, row in json_rows(file)}
        self._stage = 1 + len(imported)

    def client_arguments(self) -> dict[str, Any]:
        """Return the arguments of a `ChatOpenAI` that asks this batch and no network."""
        transport = httpx2.MockTransport(self.reply)
        return {
            "http_client": httpx2.Client(transport=transport),
            "http_async_client": httpx2.AsyncClient(transport=transport),
            "api_key": "batch",  # Not used, but required.
            "streaming": False,
        }

    def import_file(self, file: Path) -> dict[str, int]:
        """Keep the replies of a batch's results, and return counts.

        Raises InputError if none is a reply to this run.
        """
        exported = self._folder.glob("requests-*.jsonl")
        asked = {row["custom_id"] for old in exported for _, row in json_rows(old)}
        rows = [row for _, row in json_rows(file)]
        own = [row for row in rows if row.get("custom_id") in asked]
        kept = {row["custom_id"]: row for row in own if _usable(row)}
        if not own:
            raise InputError(
                f"{file} has no reply to a request of this run. Give the results of its batch."
            )
        lines = "".join(map(json_line, kept.values()))
        write_whole(self._folder / f"replies-{self._stage:03}.jsonl", lines)
        self._replies |= kept
        self._stage += 1
        return {
            "replies": len(kept),
            "to ask again": len(own) - len(kept),
            "not of this run": len(rows) - len(own),
        }

    def export(self) -> list[Path]:
        """Write the requests to files within the limits of size, and return the files."""
        name = f"requests-{self._stage:03}"
        for old in self._folder.glob(f"{name}*.jsonl"):
            old.unlink()
        parts: list[list[str]] = []
        size = 0
        for id, body in sorted(self._wanted.items()):
            line = json_line({"custom_id": id, "method": "POST", "url": URL, "body": body})
            if not parts or len(parts[-1]) == MAX_REQUESTS or size + len(line) > MAX_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(line)
            size += len(line)
        files = []
        for number, lines in enumerate(parts, 1):
            mark = f"-{number:02}" if len(parts) > 1 else ""
            files.append(self._folder / f"{name}{mark}.jsonl")
            write_whole(files[-1], "".join(lines))
        return files

    def reply(self, request: httpx2.Request) -> httpx2.Response:
        """Return the reply to a request, or note the request and raise ReplyWantedError."""
        if not request.url.path.endswith("/chat/completions"):
            raise InputError(f"Batches are for chat completions, not for {request.url.path}.")
        body = json.loads(request.content)
        id = sha256(json.dumps(body, sort_keys=True))[:40]
        if id not in self._replies:
            self._wanted[id] = body
            raise ReplyWantedError("A batch has to get this reply.", request=request)
        response = self._replies[id]["response"]
        status = int(response["status_code"])
        return httpx2.Response(status, json=response["body"], request=request)


def _usable(row: dict[str, Any]) -> bool:
    response = row.get("response") or {}
    status, body = response.get("status_code"), response.get("body")
    if row.get("error") or status not in _KEPT_STATUS or not isinstance(body, dict):
        return False
    try:
        message = body["choices"][0]["message"] if status == 200 else {"content": True}
        return bool(message.get("content") or message.get("tool_calls"))
    except (AttributeError, KeyError, IndexError, TypeError):
        return False
