"""The files of all projects that this gateway keeps: within their shares, until they are erased.

Rule: the folder is the only record of what is kept, so it can be lost; what the log says (live jobs,
erased projects) is asked of the projection when it matters. Several gateways share one folder.
Every byte counts from when it comes, whether a manifest names it or not; what no manifest names
expires. A project may keep at most as much as is still free on the disk besides the reserve: however
many bytes it sends, others find room.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.bundles.objects import Objects
from headrace.bundles.thinning import FREE_BYTES_MIN, expire, forget_before, size_of, thin
from headrace.events import Refusal
from headrace.gateway.follower import Follower
from headrace.runtime.limits import Limit, limit_of
from headrace.telemetry.disk import used_permille

PROJECT_BYTES_MAX = 50_000_000_000  # kept of one project
LOOK_EVERY_BYTES = 1_000_000_000  # received, until it is measured again what is kept
CONTENT_BYTES_MIN = 4_096  # what any content counts for: a block of the disk, and its name

IDENTITY = ".folder"  # tells one folder from another, whatever path it is mounted at

LOOK_S = 60.0  # at whether a project was erased, when nothing says so before
EXPIRE_EVERY_S = 3_600.0

_MEGABYTE = 1_000_000
_LOG = logging.getLogger("headrace.gateway")


class Keeper:
    """`root` has a folder per project; `pinned` tells which trees of a project live jobs need, and
    `free_bytes` how much the disk of `root` has left.
    """

    def disk_permille(self) -> int:
        """How full the disk with the files is."""
        return used_permille(self._root)

    def __init__(
        self,
        root: Path,
        pinned: Callable[[str], frozenset[str]] = lambda _project: frozenset(),
        *,
        project_bytes_max: Limit | None = None,
        free_bytes_min: Limit | None = None,
        free_bytes: Callable[[Path], int] = lambda root: shutil.disk_usage(root).free,
    ) -> None:
        self._root, self._pinned, self._free_bytes = root, pinned, free_bytes
        self._most = project_bytes_max or limit_of(
            "HEADRACE_FILES_PROJECT_BYTES_MAX", PROJECT_BYTES_MAX
        )
        self._reserve = free_bytes_min or limit_of(
            "HEADRACE_FILES_FREE_BYTES_MIN", FREE_BYTES_MIN, least=0
        )
        self._received: dict[str, int] = {}  # bytes since it was measured last
        self._kept: dict[str, int] = {}
        self._thinning: dict[str, asyncio.Lock] = {}
        self._erased: dict[str, int] = {}

    def identity(self) -> str:
        """What tells this folder from others. Raises `OSError`."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = self._root / f"{IDENTITY}.{secrets.token_hex(8)}"
        made.write_text(made.suffix.removeprefix("."), encoding="ascii")
        with contextlib.suppress(FileExistsError):  # another gateway was first
            os.link(made, self._root / IDENTITY)
        made.unlink()
        return (self._root / IDENTITY).read_text(encoding="ascii")

    def of(self, project: str) -> Objects:
        """The files of one project; its name has been checked. A job is accepted only with a folder that
        is kept here, so what is kept survives a power cut.
        """
        return Objects(self._root / project, durable=True)

    async def received(self, project: str, size: int, contents: int = 0) -> Refusal | None:
        """So much is being received for a project, in so many new contents; why it may not be."""
        self._received[project] = self._received.get(project, 0) + max(
            size, contents * CONTENT_BYTES_MIN
        )
        return await self.room(project, 0)

    async def room(self, project: str, size: int) -> Refusal | None:
        """Why so much more cannot be received for a project."""
        async with self._thinning.setdefault(project, asyncio.Lock()):
            most, set_by = await self._limit()
            await self._measure(project, size, most)
        kept = self._kept[project] + self._received.get(project, 0)
        if kept + size <= most:
            return None
        return Refusal(
            field="files",
            value=f"{-(-(kept + size) // _MEGABYTE)} MB",
            rule=f"project {project} may keep at most {most // _MEGABYTE} MB of files ({set_by})",
            instead="folders and outputs of jobs that have ended make room by themselves; those of "
            "live jobs stay, and what no folder names is dropped after an hour",
        )

    async def erase(self, project: str, before_us: int) -> None:
        """Remove what came before that moment of the log."""
        if (self._root / project).is_dir():
            await asyncio.to_thread(forget_before, self.of(project), before_us / 1e6)
            self._kept.pop(project, None)
            _LOG.info("files erased project=%s", project)

    async def erase_logged(self, erased_at_us: Mapping[str, int]) -> None:
        """Remove what the log says was erased, as far as that has not been done."""
        for project, at_us in list(erased_at_us.items()):
            if self._erased.get(project, 0) < at_us:
                await self.erase(project, at_us)
                self._erased[project] = at_us

    async def expire(self) -> None:
        """Remove what no folder names, of every project, and what was never received to its end."""
        for folder in sorted(path for path in self._root.glob("*") if path.is_dir()):
            async with self._thinning.setdefault(folder.name, asyncio.Lock()):
                kept = await asyncio.to_thread(expire, self.of(folder.name))
                self._kept[folder.name], self._received[folder.name] = kept, 0

    async def _limit(self) -> tuple[int, str]:
        """What a project may keep now, and what says so."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        left = max(0, self._free_bytes(self._root) - self._reserve.value)
        if left < self._most.value:
            return left, f"what is free besides the reserve, {self._reserve.set_by}"
        return self._most.value, self._most.set_by

    async def _measure(self, project: str, size: int, most: int) -> None:
        """Know what is kept, and make room when it is too much."""
        received = self._received.get(project, 0)
        if project not in self._kept or received > LOOK_EVERY_BYTES:
            self._kept[project] = await asyncio.to_thread(size_of, self.of(project))
            self._received[project] = received = 0
        if self._kept[project] + received + size > most:
            pinned = self._pinned(project)
            room = max(0, most - size)
            self._kept[project] = await asyncio.to_thread(thin, self.of(project), room, pinned)
            self._received[project] = 0
            _LOG.info("room made project=%s bytes=%d", project, self._kept[project])


async def erasing_files(follower: Follower, keeper: Keeper) -> None:
    """Remove files of erased projects, also of those erased while no gateway ran, and what expired,
    for ever.
    """
    now_s = asyncio.get_running_loop().time
    expires_s = now_s()
    while True:
        if follower.ready:
            await keeper.erase_logged(follower.projection.erased_at_us)
        if now_s() >= expires_s:
            await keeper.expire()
            expires_s = now_s() + EXPIRE_EVERY_S
        await follower.changed(LOOK_S)
