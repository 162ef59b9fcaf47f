"""The applications that people know, from their own packages, through the gateway.

Jupyter's messages: https://jupyter-client.readthedocs.io/en/stable/messaging.html
"""

from __future__ import annotations

import asyncio
import http.client
import uuid
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.workspaces import browser
from tests.workspaces.conftest import APPLICATIONS
from websockets.asyncio.client import connect

pytestmark = [
    pytest.mark.workspaces,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not APPLICATIONS.is_absolute(), reason="run by make test-workspaces"),
]

DRAWN_S_MAX = 300  # JupyterLab's first page, on a machine that has much else to do
APP = 'app: {name}\nenv: {{PATH: "{folder}:/usr/bin:/bin"}}\n'


class Visitor:
    """Whoever has opened a workspace: a program with cookies, and with Jupyter's own against forgery."""

    def __init__(self, address: str) -> None:
        self.at = urlsplit(address)
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.at.port, timeout=60)
        sent = msgspec.json.encode(body) if body is not None else None
        connection.request(method, path, sent, self.headers())
        answer = connection.getresponse()
        for cookie in answer.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        found = answer.status, answer.read()
        connection.close()
        return found

    def headers(self) -> dict[str, str]:
        crumbs = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        forged = {"X-XSRFToken": self.cookies.get("_xsrf", "")}
        return {"Host": self.at.netloc, "Cookie": crumbs, **forged}


@pytest.fixture
def visitor(submitted, platform):
    def visit(name: str, path: str) -> Visitor:
        found = Visitor(submitted(name, APP.format(name=name, folder=APPLICATIONS)))
        assert found.ask("GET", f"{found.at.path}?{found.at.query}")[0] == 303
        platform.wait(lambda: found.ask("GET", path)[0] == 200, f"{name} to answer")
        return found

    return visit


async def test_jupyter_runs_code_in_a_kernel(visitor):
    jupyter = await asyncio.to_thread(visitor, "jupyter", "/lab")
    status, body = await asyncio.to_thread(jupyter.ask, "POST", "/api/kernels", {"name": "python3"})
    assert status == 201
    kernel = msgspec.json.decode(body)["id"]
    url = f"ws://{jupyter.at.netloc}/api/kernels/{kernel}/channels"
    sent = {k: v for k, v in jupyter.headers().items() if k != "Host"}
    at = {"host": "127.0.0.1", "port": jupyter.at.port}
    async with connect(url, additional_headers=sent, proxy=None, **at) as kernel_says:
        await kernel_says.send(msgspec.json.encode(execute("print(6 * 7)")).decode())
        async with asyncio.timeout(60):
            async for message in kernel_says:
                said = msgspec.json.decode(message)
                if said["msg_type"] == "stream":
                    break
    assert said["content"]["text"] == "42\n"


def execute(code):
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "", "date": ""}
    header |= {"session": uuid.uuid4().hex, "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}}
    content |= {"allow_stdin": False, "stop_on_error": True}
    return {
        "header": header, "parent_header": {}, "metadata": {}, "content": content,
        "channel": "shell", "buffers": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path", "holds"), [("marimo", "/", b"marimo"), ("tensorboard", "/", b"TensorBoard")]
)
def test_an_application_answers(visitor, name, path, holds):
    _, body = visitor(name, path).ask("GET", path)
    assert holds in body


@pytest.mark.skipif(not browser.program(), reason="make system-deps installs a browser")
async def test_jupyter_is_drawn_in_a_browser_and_is_no_use_while_nobody_touches_it(
    submitted, platform, tmp_path
):
    text = APP.format(name="jupyter", folder=APPLICATIONS) + "idle: {for: 30s}\n"
    address = await asyncio.to_thread(submitted, "jupyter", text)
    async with browser.browser(tmp_path / "profile") as opened:
        page = await opened.page()
        await page.go(address)
        launcher = "document.querySelector('#jp-main-dock-panel, .jp-Launcher') !== null"
        async with asyncio.timeout(DRAWN_S_MAX):
            await browser.until(lambda: page.find(launcher))
        job = urlsplit(address).hostname.removesuffix(".localhost")
        row = await asyncio.to_thread(platform.ended, job)  # though the page is still open
        assert row["why"].startswith("idle: not used for 3")
