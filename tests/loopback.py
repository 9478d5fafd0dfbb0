"""Serves an ASGI application on loopback, in a thread; it neither starts nor ends with a wait."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

PATIENCE = 900.0
"""Seconds to wait for an event before a test fails."""


class LoopbackServer(uvicorn.Server):
    """Ends at once, and closes the connections of its clients.

    Uvicorn's own looks ten times a second whether it is to end, and then waits a tenth of a second
    for its clients.
    """

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self.url = url
        self.ended: Future[None] = Future()

    def hang_up(self, client: Any = None) -> None:
        """Break the connection of a client, or all of them; only from the server's own thread."""
        for connection in list(self.server_state.connections):
            if client is None or getattr(connection, "client", None) == tuple(client):
                connection.transport.abort()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await asyncio.wrap_future(self.ended)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        self.hang_up()
        for task in self.server_state.tasks:
            task.cancel()
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(0.001)


@contextmanager
def serve_app(
    app: ASGIApp, *, port: int = 0, headers: Sequence[tuple[str, str]] = ()
) -> Iterator[LoopbackServer]:
    """Serve on loopback, on a free port unless one is named; each reply has the headers."""
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        app, log_config=None, log_level="critical", lifespan="off", headers=list(headers)
    )
    server = LoopbackServer(config, f"http://127.0.0.1:{listener.getsockname()[1]}")
    # Connections wait in the listener's queue until the server runs.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set_result(None)
        thread.join(PATIENCE)
        listener.close()
