"""What is put on record of who comes and what they read.

Rule: readings of what another's job wrote or left behind are on record before anything is shown, one
event for each reader, job and kind an hour; who signs in is, whenever their groups are others than before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
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
RECORDED_MAX = 10_000  # that are remembered; the oldest are forgotten first

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


class Recorded:
    """What was put on record in the last hour, and need not be again. `monotonic_s` is a clock that
    only goes forward.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._at_s: dict[tuple[str, str], float] = {}

    async def once(self, about: tuple[str, str], record: Callable[[], Awaitable[None]]) -> None:
        """Put on record what somebody does to something, unless it was. Raises what `record` does."""
        now_s = self._monotonic_s()
        if now_s - self._at_s.get(about, now_s - AGAIN_S) < AGAIN_S:
            return
        await record()
        self._at_s.pop(about, None)
        self._at_s[about] = now_s
        if len(self._at_s) > RECORDED_MAX:
            del self._at_s[next(iter(self._at_s))]


class Readings:
    """What was read of others' jobs."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._recorded = Recorded(monotonic_s)

    async def note(self, by: Caller, job: Job, what: str) -> None:
        """Put on record that somebody reads this of the job (`logs` or `outputs`), unless it is their
        own. Raises `NoAnswer`, `NotReady`.
        """

        async def record() -> None:
            answer = await by.ask("access.read", job.project, {"job": job.job, "what": what})
            if not answer.accepted:
                raise NotReady(answer.message)

        reader = by.subject.actor
        if reader != job.user:
            await self._recorded.once((reader, f"{what} {job.job}"), record)
