"""The files of all projects that this gateway keeps: within their caps, until they are erased.

Rule: the folder is the only record of what is kept, so it can be lost; what the log says (live jobs,
erased projects) is asked of the projection when it matters. Several gateways share one folder.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.bundles.objects import Objects
from headrace.bundles.thinning import forget_before, size_of, thin
from headrace.gateway.follower import Follower

PROJECT_BYTES_MAX = 50_000_000_000  # kept of one project
LOOK_EVERY_BYTES = 1_000_000_000  # received, until it is measured again what is kept

LOOK_S = 60.0  # at whether a project was erased, when nothing says so before

_LOG = logging.getLogger("headrace.gateway")


class Keeper:
    """`root` has a folder per project; `pinned` tells which trees of a project live jobs need."""

    def __init__(
        self,
        root: Path,
        pinned: Callable[[str], frozenset[str]] = lambda _project: frozenset(),
        *,
        project_bytes_max: int = PROJECT_BYTES_MAX,
    ) -> None:
        self._root, self._pinned = root, pinned
        self._bytes_max = project_bytes_max
        self._received: dict[str, int] = {}  # bytes since it was measured last
        self._kept: dict[str, int] = {}
        self._thinning: dict[str, asyncio.Lock] = {}
        self._erased: dict[str, int] = {}

    def of(self, project: str) -> Objects:
        """The files of one project; its name has been checked."""
        return Objects(self._root / project)

    async def received(self, project: str, size: int) -> str:
        """So much is about to be received for a project; why it cannot be ("" when it can)."""
        self._received[project] = self._received.get(project, 0) + size
        async with self._thinning.setdefault(project, asyncio.Lock()):
            await self._measure(project, size)
        if self._kept[project] + self._received[project] <= self._bytes_max:
            return ""
        gigabytes = self._bytes_max // 1_000_000_000
        return (
            f"the files of {project}'s live jobs fill the {gigabytes} GB that are kept of a project"
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

    async def _measure(self, project: str, size: int) -> None:
        """Know what is kept, and make room when it is too much."""
        received = self._received[project]
        if project not in self._kept or received > LOOK_EVERY_BYTES:
            self._kept[project] = await asyncio.to_thread(size_of, self.of(project))
            self._received[project] = received = size  # which has not come yet
        if self._kept[project] + received > self._bytes_max:
            pinned = self._pinned(project)
            room = self._bytes_max - received
            self._kept[project] = await asyncio.to_thread(thin, self.of(project), room, pinned)
            _LOG.info("room made project=%s bytes=%d", project, self._kept[project])


async def erasing_files(follower: Follower, keeper: Keeper) -> None:
    """Remove files of erased projects, also of those erased while no gateway ran, for ever."""
    while True:
        if follower.ready:
            await keeper.erase_logged(follower.projection.erased_at_us)
        await follower.changed(LOOK_S)
