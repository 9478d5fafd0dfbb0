"""Connections of uvicorn that close if they send no request."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_TO_ASK = 5.0
"""Seconds to wait for the head of a connection's first request."""


class Connection(H11Protocol):
    """Closes a connection that has sent no request in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(SECONDS_TO_ASK, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()
