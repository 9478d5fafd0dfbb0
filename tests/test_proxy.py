"""The configuration of nginx in the documentation, before a page with a token."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from briefcontext.page.app import create_app
from tests.conftest import QUESTION
from tests.loopback import serve_app

NGINX = shutil.which("nginx")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed"),
]
TOKEN = {"Authorization": "Bearer correct-horse-battery-staple"}
MAIN = """
daemon off; error_log stderr; pid {folder}/pid; user root;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    {server}
}}
"""


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of the proxy."""
    text = (Path(__file__).parents[1] / "docs" / "agents.md").read_text()
    [server] = re.findall(r"```nginx\n(.*?)```", text, re.DOTALL)
    server = "".join(line for line in server.splitlines(True) if "ssl_" not in line)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with serve_app(create_app(token=TOKEN["Authorization"].split()[1])) as page:
        server = server.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
        server = server.replace("http://127.0.0.1:8000", page.url)
        config = tmp_path / "nginx.conf"
        config.write_text(MAIN.format(folder=tmp_path, server=server))
        assert NGINX is not None
        running = subprocess.Popen([NGINX, "-p", tmp_path, "-c", config])
        retries = httpx.HTTPTransport(retries=8)
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, transport=retries, timeout=60) as client:
            yield client
        running.terminate()
        running.wait(timeout=30)


def test_a_question_through_the_proxy_is_answered(proxy: httpx.Client) -> None:
    origin = {"Origin": str(proxy.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    answered = proxy.post("/api/ask", json={"question": QUESTION}, headers={**TOKEN, **origin})
    assert '"event": "answer"' in answered.text
    assert "BriefContext" in proxy.get("/").text


def test_the_guard_holds_through_the_proxy(proxy: httpx.Client) -> None:
    assert proxy.get("/api/about").status_code == 401
    foreign = {**TOKEN, "Origin": "https://attacker.example"}
    assert proxy.post("/api/ask", json={"question": "x"}, headers=foreign).status_code == 403
    assert proxy.post("/api/ask", content=bytes(13 * 1024**2), headers=TOKEN).status_code == 413


def test_the_proxy_limits_the_requests_of_a_client(proxy: httpx.Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: proxy.get("/api/about", headers=TOKEN), range(40)))
    assert {reply.status_code for reply in replies} == {200, 429}
