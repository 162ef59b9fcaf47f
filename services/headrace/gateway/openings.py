"""Who has opened which workspace with a browser: tickets, and the cookies that they become.

Rule: a ticket is good once and for a short while; a cookie for one workspace, as long as whoever
opened it would still be let in. Both are known by their SHA-256, to this process alone: after a
restart people open anew.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from headrace.gateway.fair_cache import FairCache

TICKET_S_MAX = 60.0
OPEN_S_MAX = 43_200.0  # of one cookie
TICKETS_MAX = 1_000
COOKIES_MAX = 10_000


class Entrant(Protocol):
    """Whoever was let in."""

    @property
    def name(self) -> str:
        """Who that is: nobody's openings take the room of another one's."""
        ...

    def holds(self) -> bool:
        """Whether they would be now."""
        ...

    async def until_denied(self) -> None:
        """Return once they would not."""
        ...


@dataclass(frozen=True)
class Opened:
    """Somebody in a workspace."""

    job: str
    by: Entrant
    until_s: float


class Openings:
    """The tickets and cookies of one gateway. `now_s` is a steady clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._tickets: FairCache[Opened] = FairCache(TICKETS_MAX)
        self._cookies: FairCache[Opened] = FairCache(COOKIES_MAX)

    def ticket(self, job: str, by: Entrant) -> str:
        """A ticket into the job, for `by`, who may enter it."""
        return _kept(self._tickets, Opened(job, by, self._now_s() + TICKET_S_MAX))

    def cookie(self, job: str, ticket: str) -> str:
        """The cookie that the ticket becomes; empty when it is none into this job, or no longer."""
        opening = self._tickets.pop(_digest(ticket))
        if opening is None or not self._holds(opening, job):
            return ""
        until_s = self._now_s() + OPEN_S_MAX
        return _kept(self._cookies, Opened(job, opening.by, until_s))

    def opened(self, job: str, cookies: Iterable[str]) -> Opened | None:
        """Who came with one of these cookies, if it is one into this job and still good."""
        found = (self._opened(job, cookie) for cookie in cookies)
        return next(filter(None, found), None)

    def _opened(self, job: str, cookie: str) -> Opened | None:
        digest = _digest(cookie)
        opening = self._cookies.get(digest)
        if opening is None or opening.job != job:
            return None
        if self._holds(opening, job):
            return opening
        self._cookies.pop(digest)
        return None

    def _holds(self, opening: Opened, job: str) -> bool:
        return opening.job == job and self._now_s() < opening.until_s and opening.by.holds()


def _kept(kept: FairCache[Opened], opening: Opened) -> str:
    secret = secrets.token_urlsafe(32)
    kept.put(_digest(secret), opening, opening.by.name)
    return secret


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
