"""Requests that wait for a service's time, in fair order between projects.

Rule: round robin. A project has a lane, served in its own order, one request at a time; a few lanes
are served at once, so that what one of them waits for outside delays no other. A lane has room for so
many messages and bytes, and a project may send so many a second for long; what comes beyond that is refused
at once: one project's flood costs it its own answers and nobody else's.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headrace.bus.handling import end
from headrace.events import Refusal
from headrace.runtime.limits import Limit, limit_of
from headrace.runtime.token_buckets import TokenBuckets

WAITING_PER_PROJECT_MAX = 10_000
WAITING_BYTES_PER_PROJECT_MAX = 33_554_432
PER_S_PER_PROJECT_MAX = 2_000  # for long; as many at once as may wait
SERVED_AT_ONCE = 8  # lanes

Serve = Callable[[], Awaitable[object]]


class _Waiting(NamedTuple):
    serve: Serve
    size: int


class _Lane:
    """What waits of one project."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.size = 0


class Lanes:
    """The lanes of one service. `has_room` returns when one more request may go on: what waits
    behind the lanes waits in no fair order, and is kept short.
    """

    def __init__(
        self,
        has_room: Callable[[], Awaitable[None]],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._has_room = has_room
        self._count_max = limit_of(
            "HEADRACE_REQUESTS_WAITING_PER_PROJECT_MAX", WAITING_PER_PROJECT_MAX
        )
        self._bytes_max = limit_of(
            "HEADRACE_REQUESTS_WAITING_BYTES_PER_PROJECT_MAX", WAITING_BYTES_PER_PROJECT_MAX
        )
        self._per_s_max = limit_of("HEADRACE_REQUESTS_PER_S_PER_PROJECT_MAX", PER_S_PER_PROJECT_MAX)
        burst = max(self._count_max.value, self._per_s_max.value)
        self._rate = TokenBuckets(burst, self._per_s_max.value, monotonic_s)
        self._lanes: dict[str, _Lane] = {}
        self._ready: deque[str] = deque()  # projects that wait and are not being served
        self._woken = asyncio.Semaphore(0)  # counts `_ready`
        self._servers: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Begin to serve."""
        self._servers = [asyncio.create_task(self._serve()) for _ in range(SERVED_AT_ONCE)]

    async def close(self) -> None:
        """Serve no more; what waits is forgotten: whoever asked repeats it under its key."""
        for server in self._servers:
            await end(server)
        self._servers.clear()
        self._lanes.clear()
        self._ready.clear()
        self._woken = asyncio.Semaphore(0)

    def refusal(self, project: str, size: int) -> Refusal | None:
        """Why no more of this project may wait."""
        if not self._rate.takes(project):
            most = self._per_s_max
            rule = f"project {project} may send {most.value} a second for long ({most.set_by})"
            return Refusal(field="request", rule=rule, instead="repeat it later")
        lane = self._lanes.get(project)
        if lane is None:
            return None
        if len(lane.waiting) >= self._count_max.value:
            return _full(project, len(lane.waiting), "requests", self._count_max)
        if lane.size + size > self._bytes_max.value:
            return _full(project, lane.size, "bytes of requests", self._bytes_max)
        return None

    def add(self, project: str, serve: Serve, size: int) -> None:
        """Have this called when it is its turn; it raises nothing."""
        lane = self._lanes.get(project)
        if lane is None:
            lane = self._lanes[project] = _Lane()
            self._is_ready(project)
        lane.waiting.append(_Waiting(serve, size))
        lane.size += size

    def _is_ready(self, project: str) -> None:
        self._ready.append(project)
        self._woken.release()

    async def _serve(self) -> None:
        while True:
            await self._woken.acquire()
            project = self._ready.popleft()
            lane = self._lanes[project]
            await self._has_room()
            first = lane.waiting.popleft()
            lane.size -= first.size
            await first.serve()
            if lane.waiting:
                self._is_ready(project)
            else:
                del self._lanes[project]


def _full(project: str, has: int, what: str, most: Limit) -> Refusal:
    return Refusal(
        field="request",
        rule=f"{has} {what} of project {project} wait, and at most {most.value} may ({most.set_by})",
        instead="repeat it when some of them are answered",
    )
