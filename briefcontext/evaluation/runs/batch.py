"""Provider batches: requests written to a file instead of sent, and replies read from one.

A batch takes the place of the network under the OpenAI client, which makes and reads them as it
does others.
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
MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000
"""OpenAI takes 50,000 requests and 200 MB in a batch."""

_KEPT_STATUS = frozenset({200, 400, 415, 422})
"""Answers, and refusals of a request's form, after which another form is tried. Other failures are asked again."""


class Batch:
    """The requests and replies of a run that is made by batches, in its folder `batch`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._wanted: dict[str, dict[str, Any]] = {}
        imported = sorted(folder.glob("replies-*.jsonl"))
        self._replies = {row["custom_id"]: row for file in imported for _, row in json_rows(file)}
        self._stage = 1 + len(imported)

    def client_arguments(self) -> dict[str, Any]:
        """Return what `ChatOpenAI` takes so that it asks this batch and no network."""
        transport = httpx2.MockTransport(self.reply)
        return {
            "http_client": httpx2.Client(transport=transport),
            "http_async_client": httpx2.AsyncClient(transport=transport),
            # No request leaves, so that none needs a real key.
            "api_key": "batch",
            "streaming": False,
        }

    def import_file(self, file: Path) -> dict[str, int]:
        """Take the replies in a file of a batch's results; raise InputError where none of its rows is of this run."""
        asked = {
            row["custom_id"]
            for old in self._folder.glob("requests-*.jsonl")
            for _, row in json_rows(old)
        }
        rows = [row for _, row in json_rows(file)]
        ours = [row for row in rows if row.get("custom_id") in asked]
        kept = {row["custom_id"]: row for row in ours if _usable(row)}
        counts = {
            "replies": len(kept),
            "to ask again": len(ours) - len(kept),
            "not of this run": len(rows) - len(ours),
        }
        if not ours:
            raise InputError(
                f"{file} holds no reply to a request of this run. Give the file of results that "
                f"belongs to the "
                "exported requests."
            )
        write_whole(
            self._folder / f"replies-{self._stage:03}.jsonl", "".join(map(json_line, kept.values()))
        )
        self._replies |= kept
        self._stage += 1
        return counts

    def export(self) -> list[Path]:
        """Write the wanted requests, in as many files as a provider's limits need, and return them."""
        name = f"requests-{self._stage:03}"
        for old in self._folder.glob(f"{name}*.jsonl"):
            old.unlink()
        parts: list[list[str]] = []
        size = 0
        for id, body in sorted(self._wanted.items()):
            line = json_line({"custom_id": id, "method": "POST", "url": URL, "body": body})
            if not parts or len(parts[-1]) == MOST_REQUESTS or size + len(line) > MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(line)
            size += len(line)
        marks = [f"-{number:02}" for number in range(1, len(parts) + 1)] if len(parts) > 1 else [""]
        files = {
            self._folder / f"{name}{mark}.jsonl": part
            for mark, part in zip(marks, parts, strict=False)
        }
        for file, lines in files.items():
            write_whole(file, "".join(lines))
        return list(files)

    def reply(self, request: httpx2.Request) -> httpx2.Response:
        """Return the reply to a request, or note that it is wanted and raise ReplyWantedError."""
        if not request.url.path.endswith("/chat/completions"):
            raise InputError(
                f"Batches hold chat completions, and the model is asked by {request.url.path}."
            )
        body = json.loads(request.content)
        id = sha256(json.dumps(body, sort_keys=True))[:40]
        if id in self._replies:
            response = self._replies[id]["response"]
            return httpx2.Response(
                int(response["status_code"]), json=response["body"], request=request
            )
        self._wanted[id] = body
        raise ReplyWantedError("This reply is to be fetched in a batch.", request=request)


def _usable(row: dict[str, Any]) -> bool:
    """Return whether a line of results is a reply: not an error of the batch, and not empty."""
    response = row.get("response") or {}
    status, body = response.get("status_code"), response.get("body")
    if row.get("error") or status not in _KEPT_STATUS or not isinstance(body, dict):
        return False
    try:
        return status != 200 or any(
            body["choices"][0]["message"].get(part) for part in ("content", "tool_calls")
        )
    except (AttributeError, KeyError, IndexError, TypeError):
        return False
