"""Provider batches: requests written to a file instead of sent, and replies read from one.

A batch takes the place of the network under the OpenAI client, so that the requests are exactly those that would be
sent, and the replies are read by the same code.
"""

import json
from pathlib import Path
from typing import Any

import httpx2

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.field_parsers import json_rows
from briefcontext.evaluation.methods.call_trace import ReplyWantedError
from briefcontext.files import json_line, sha256, write_whole

__all__ = ["Batch"]

URL = "/v1/chat/completions"
MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000
"""OpenAI takes 50,000 requests and 200 MB in a batch."""

_KEPT_STATUS = frozenset({200, 400, 415, 422})
"""Answers, and refusals of a request's form, after which another form is tried. Other failures are asked again."""


class Batch:
    """The requests and replies of a run that is made by batches, in its folder `batch`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replies: dict[str, dict[str, Any]] = {}
        self.wanted: dict[str, dict[str, Any]] = {}
        """Request bodies by custom_id."""
        for file in sorted(folder.glob("replies-*.jsonl")):
            for _, row in json_rows(file):
                self._replies[row["custom_id"]] = row

    @property
    def stage(self) -> int:
        """How many imports there were, plus one."""
        return 1 + len(list(self._folder.glob("replies-*.jsonl")))

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
        """Take the replies in a file of a batch's results.

        Raises:
            InputError: it cannot be read, or holds no reply of this run.
        """
        asked = {row["custom_id"] for old in self._folder.glob("requests-*.jsonl") for _, row in json_rows(old)}
        rows = [row for _, row in json_rows(file)]
        ours = [row for row in rows if row.get("custom_id") in asked]
        kept = [row for row in ours if _usable(row)]
        counts = {
            "replies": len(kept),
            "to ask again": len(ours) - len(kept),
            "not of this run": len(rows) - len(ours),
        }
        if not kept:
            raise InputError(
                f"{file} holds no reply to a request of this run "
                f"({', '.join(f'{count} {what}' for what, count in counts.items())}). "
                "Give the file of results that belongs to the exported requests."
            )
        name = f"replies-{self.stage:03}.jsonl"
        write_whole(self._folder / name, "".join(map(json_line, kept)))
        self._replies.update((row["custom_id"], row) for row in kept)
        return counts

    def export(self) -> list[Path]:
        """Write the wanted requests, in as many files as a provider's limits need, and return them."""
        self._folder.mkdir(parents=True, exist_ok=True)
        stage = self.stage
        for old in self._folder.glob(f"requests-{stage:03}*.jsonl"):
            old.unlink()
        parts: list[list[str]] = []
        size = 0
        for id, body in sorted(self.wanted.items()):
            line = json_line({"custom_id": id, "method": "POST", "url": URL, "body": body})
            if not parts or len(parts[-1]) == MOST_REQUESTS or size + len(line) > MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(line)
            size += len(line)
        files = []
        for number, lines in enumerate(parts, 1):
            suffix = f"-{number:02}" if len(parts) > 1 else ""
            files.append(self._folder / f"requests-{stage:03}{suffix}.jsonl")
            write_whole(files[-1], "".join(lines))
        return files

    def reply(self, request: httpx2.Request) -> httpx2.Response:
        """Return the reply to a request, or note that it is wanted.

        Raises:
            ReplyWantedError: there is no reply yet.
        """
        if not request.url.path.endswith("/chat/completions"):
            raise InputError(f"Batches hold chat completions, and the model is asked by {request.url.path}.")
        body = json.loads(request.content)
        id = sha256(json.dumps(body, sort_keys=True))[:40]
        found = self._replies.get(id)
        if found is not None:
            response = found["response"]
            return httpx2.Response(int(response["status_code"]), json=response["body"], request=request)
        self.wanted[id] = body
        raise ReplyWantedError("This reply is to be fetched in a batch.", request=request)


def _usable(row: dict[str, Any]) -> bool:
    """Return whether a line of results is a reply: not an error of the batch, and not empty."""
    response = row.get("response") or {}
    status, body = response.get("status_code"), response.get("body")
    if row.get("error") or status not in _KEPT_STATUS or not isinstance(body, dict):
        return False
    try:
        return status != 200 or any(body["choices"][0]["message"].get(part) for part in ("content", "tool_calls"))
    except (AttributeError, KeyError, IndexError, TypeError):
        return False
