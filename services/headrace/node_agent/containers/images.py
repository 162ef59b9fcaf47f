"""Has images fetched, says how that goes, and keeps what was fetched below a cap.

Rule: an image that is here is used as it is; who wants certainty names a digest. Only what this node
had fetched is removed, the longest unused first and never what a container uses: what an operator put
there stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from headrace.node_agent.containers.engine import Denied, Engine
from headrace.trust.order import replace

PULL_S_MAX = 3_600.0
SAY_EVERY_S = 10.0
BYTES_MAX = 200 * 2**30  # fetched and kept, unless the node says otherwise
PULLS_MAX = 3  # at once: the disk is shared
REASON_LENGTH_MAX = 300
FILE = "images.json"

_LOG = logging.getLogger("headrace.node_agent")


class CannotPull(Exception):
    """The image is not to be had; the message says why."""


class Images:
    """The images of one node. `logins` are those of its registries, see `logins_in`."""

    def __init__(
        self, engine: Engine, node_dir: Path, *, bytes_max: int, logins: Mapping[str, Any]
    ) -> None:
        self._engine, self._path, self._bytes_max = engine, node_dir / FILE, bytes_max
        self._logins = logins
        self._used_s: dict[str, int] = self._read()
        self._turn = asyncio.Semaphore(PULLS_MAX)
        self._locks: dict[str, asyncio.Lock] = {}

    async def have(self, image: str, say: Callable[[str], None]) -> None:
        """See that the image is here. Raises `CannotPull`, `Away`."""
        async with self._locks.setdefault(image, asyncio.Lock()):
            if not await self._engine.has(image):
                async with self._turn:
                    await self._pull(image, say)
                self._used_s[image] = 0
        if image in self._used_s:
            self._used_s[image] = int(time.time())
            self._write()
        await self._clean(image)

    async def _pull(self, image: str, say: Callable[[str], None]) -> None:
        progress, said_s = Progress(), time.monotonic()
        say(f"headrace: fetching image {image}")
        try:
            async with asyncio.timeout(PULL_S_MAX):
                async for line in self._engine.pull(image, self._login(image)):
                    progress.hear(line)
                    if time.monotonic() - said_s >= SAY_EVERY_S:
                        said_s = time.monotonic()
                        say(f"headrace: fetching image {image}: {progress.told()}")
        except TimeoutError:
            reason = f"not here after {PULL_S_MAX:.0f} s ({progress.told()})"
            raise CannotPull(f"image {image} cannot be pulled: {reason}") from None
        except Denied as error:
            reason = " ".join(str(error).split())[:REASON_LENGTH_MAX]
            raise CannotPull(f"image {image} cannot be pulled: {reason}") from None

    def _login(self, image: str) -> dict[str, str] | None:
        registry, slash, _ = image.partition("/")
        return self._logins.get(registry) if slash else None

    async def _clean(self, needed: str) -> None:
        """Remove what is beyond the cap."""
        sizes: dict[str, int] = {}
        for image in list(self._used_s):
            with contextlib.suppress(Denied):
                sizes[image] = await self._engine.size_of(image)
        self._used_s = {image: at_s for image, at_s in self._used_s.items() if image in sizes}
        held = sum(sizes.values())
        for image in sorted(sizes, key=lambda image: (self._used_s[image], image)):
            if held <= self._bytes_max:
                break
            if image != needed and await self._remove(image):
                held -= sizes[image]
        self._write()

    async def _remove(self, image: str) -> bool:
        try:
            await self._engine.remove_image(image)
        except Denied:
            return False  # a container uses it
        _LOG.info("image removed image=%s", image)
        self._used_s.pop(image, None)
        return True

    def _read(self) -> dict[str, int]:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        return {}

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            replace(self._path, msgspec.json.encode(self._used_s))


class Progress:
    """What the engine said of the layers of one image."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}

    def hear(self, line: Any) -> None:
        """A line of its progress; anything else in it is passed over."""
        detail = line.get("progressDetail") if isinstance(line, dict) else None
        if line and detail and detail.get("total") and line.get("status") == "Downloading":
            self._layers[str(line.get("id"))] = (int(detail["current"]), int(detail["total"]))
        elif isinstance(line, dict) and line.get("status") == "Download complete":
            _, total = self._layers.get(str(line.get("id")), (0, 0))
            self._layers[str(line.get("id"))] = (total, total)

    def told(self) -> str:
        """For people: how much of what is known of."""
        here = sum(here for here, _ in self._layers.values())
        total = sum(total for _, total in self._layers.values())
        return f"{here >> 20} of {total >> 20} MiB" if total else "nothing has come yet"


def logins_in(config: Path) -> dict[str, dict[str, str]]:
    """The registries' logins in a Docker configuration file (`auths`), as `docker login` leaves
    them; none where it cannot be read. Credential helpers are not asked.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        auths = msgspec.json.decode(config.read_bytes()).get("auths", {})
        return {
            name: {"auth": str(login["auth"])} for name, login in auths.items() if login.get("auth")
        }
    return {}
