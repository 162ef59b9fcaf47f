"""What is put on record of who comes and what they read.

Rule: readings of what another's job wrote are on record before anything is shown, one event for each
reader and job an hour; who signs in is, whenever their groups are others than before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.access.directory import Directory
from headrace.bus.subjects import FLEET
from headrace.gateway.asking import Asker
from headrace.gateway.authenticating import Login
from headrace.gateway.errors import GatewayError, NotReady
from headrace.gateway.projection import Job

if TYPE_CHECKING:
    from headrace.gateway.caller import Caller

AGAIN_S = 3_600.0
READERS_MAX = 10_000  # readers and jobs that are remembered; the oldest are forgotten first

_LOG = logging.getLogger("headrace.gateway")


class SignIns:
    """Whom an identity provider vouches for, told to who keeps it."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._telling: dict[str, asyncio.Task[None]] = {}

    def note(self, login: Login, directory: Directory) -> None:
        """Somebody came with these groups."""
        user = login.subject.name
        is_news = login.groups is not None and directory.signed_in.get(user) != login.groups
        if is_news and user not in self._telling:
            self._telling[user] = asyncio.create_task(self._tell(user, login.groups or ()))

    async def _tell(self, user: str, groups: tuple[str, ...]) -> None:
        try:
            body = {"user": user, "groups": groups}
            await self._asker.ask("access.signed_in", FLEET, body, actor=user)
        except GatewayError as error:
            _LOG.warning("sign-in not on record user=%s error=%s", user, error)
        finally:
            del self._telling[user]


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
