"""Readings of what another's job wrote: on record before anything is shown.

Rule: one event for each reader and job an hour; who reads on, or again, is not recorded again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.gateway.errors import NotReady
from headrace.gateway.projection import Job

if TYPE_CHECKING:
    from headrace.gateway.caller import Caller

AGAIN_S = 3_600.0
READERS_MAX = 10_000  # readers and jobs that are remembered; the oldest are forgotten first


class Readings:
    """What was read in the last hour. `monotonic_s` is a clock that only goes forward."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._at_s: dict[tuple[str, str], float] = {}

    async def note(self, by: Caller, job: Job) -> None:
        """Put on record that somebody reads this job's output, unless it is their own.

        Raises `NoAnswer`, `NotReady`.
        """
        reader = by.subject.actor
        key, now_s = (reader, job.job), self._monotonic_s()
        if reader == job.user or now_s - self._at_s.get(key, now_s - AGAIN_S) < AGAIN_S:
            return
        answer = await by.ask("access.read", job.project, {"job": job.job, "what": "logs"})
        if not answer.accepted:
            raise NotReady(answer.message)
        self._at_s.pop(key, None)
        self._at_s[key] = now_s
        if len(self._at_s) > READERS_MAX:
            del self._at_s[next(iter(self._at_s))]
