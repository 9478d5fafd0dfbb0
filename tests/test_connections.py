"""Connections that send no request, or too much of a header."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from briefcontext import connections
from briefcontext.connections import Connection


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of a server that waits a short time for a request."""
    monkeypatch.setattr(connections, "SECONDS_TO_ASK", 0.2)
    app = PlainTextResponse("Hello.")
    config = uvicorn.Config(app, http=Connection, ws="none", lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        yield listener.getsockname()[1]
        server.should_exit = True
        await running


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nX-Slow: "])
async def test_a_connection_without_a_request_is_closed(sent: bytes, port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


async def test_a_connection_that_has_asked_stays_open(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(10):
            assert (await reader.readuntil(b"Hello.")).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(0.3)
    writer.close()


async def test_a_header_without_end_is_refused(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nX-Large: " + bytes(1024**2).replace(b"\0", b"x"))
    async with asyncio.timeout(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()
