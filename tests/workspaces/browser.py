"""A real browser, driven through the Chrome DevTools Protocol: pages, and what scripts in them find.

Source: https://chromedevtools.github.io/devtools-protocol/ (Target, Page, Runtime).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
START_S_MAX, ANSWER_S_MAX = 60.0, 120.0
MESSAGE_BYTES_MAX = 64_000_000


def program() -> str:
    """The browser of this machine; empty when there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), "")


class Page:
    """A tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    async def go(self, address: str) -> str:
        """Open the address; where that led to, once it is loaded."""
        await self._browser.call("Page.navigate", {"url": address}, self._session)
        async with asyncio.timeout(ANSWER_S_MAX):
            await until(lambda: self.find("document.readyState === 'complete'"))
        return str(await self.find("location.href"))

    async def find(self, script: str) -> Any:
        """What the expression comes to in the page, promises awaited."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        said = await self._browser.call("Runtime.evaluate", asked, self._session)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")


class Browser:
    """A browser with one person's cookies."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def page(self) -> Page:
        """A new tab."""
        made = await self.call("Target.createTarget", {"url": "about:blank"})
        where = {"targetId": made["targetId"], "flatten": True}
        attached = await self.call("Target.attachToTarget", where)
        await self.call("Page.enable", {}, attached["sessionId"])
        return Page(self, attached["sessionId"])

    async def call(self, method: str, params: dict[str, Any], session: str = "") -> Any:
        """Ask the browser."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        said = {"id": number, "method": method, "params": params}
        said |= {"sessionId": session} if session else {}
        await self._connection.send(msgspec.json.encode(said).decode())
        return await asyncio.wait_for(answer, ANSWER_S_MAX)

    async def listen(self) -> None:
        """Hear answers, until the browser is gone."""
        async for message in self._connection:
            said = msgspec.json.decode(message)
            answer = self._waiting.pop(said.get("id", 0), None)
            if answer is not None and "error" in said:
                answer.set_exception(RuntimeError(said["error"]["message"]))
            elif answer is not None:
                answer.set_result(said["result"])


@contextlib.asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Browser]:
    """A fresh browser, with its profile in the folder."""
    process = await asyncio.create_subprocess_exec(
        program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--remote-debugging-port=0", f"--user-data-dir={folder}",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(START_S_MAX):
            said = await until(lambda: _said(folder / "DevToolsActivePort"))
        url = f"ws://127.0.0.1:{said[0]}{said[1]}"
        async with connect(url, max_size=MESSAGE_BYTES_MAX, proxy=None) as connection:
            found = Browser(connection)
            listening = asyncio.create_task(found.listen())
            yield found
            listening.cancel()
    finally:
        process.kill()
        await process.wait()


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """What is found, once it is something."""
    while True:
        if is_so := await found():
            return is_so
        await asyncio.sleep(0.05)


async def _said(path: Path) -> list[str]:
    return await asyncio.to_thread(_lines, path)


def _lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return lines if len(lines) > 1 else []
