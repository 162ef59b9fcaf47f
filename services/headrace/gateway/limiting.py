"""How many requests are taken: without a token of ours by where they come from, and changes by how
many wait for an answer; and how many streams and uploads there are of each.

Rule: a token bucket per address; addresses are forgotten, the one not heard for longest first. Of
changes no more wait than are answered soon: one more is told at once to come again, unless its
project has less than an equal share of the room, and its asker of the project's.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NoReturn

from headrace.events import Refusal
from headrace.gateway.errors import TooMany
from headrace.runtime.limits import Limit, limit_of
from headrace.runtime.token_buckets import TokenBuckets

BURST = 100  # at once: a rack that joins from behind one address
REFILL_PER_S = 5
STREAMS_PER_USER_MAX, STREAMS_MAX = 512, 8_192
PAGES_PER_USER_MAX, PAGES_MAX = 8, 128
UPLOADS_PER_PROJECT_MAX, UPLOADS_MAX = 4, 128
ANSWERED_S = 0.08  # of the 100 ms within which a change is done; the way here and back has the rest
WORK_TIMES_MAX = 2  # what those take who wait for few: where that is long, others may wait as long
FEW = 8
CHANGES_LEAST, CHANGES_FIRST, CHANGES_MAX = 32, 64, 256  # that wait for one service
LEFT_AT_ONCE = 0.7  # of the room, whatever one answer took: it may have been an accident
WEIGHT = 0.1  # of one answer in what it takes who waits for few
AGAIN_S_MAX = 8  # until who found no room comes again
COUNTED_S = 1.0  # over how long refusals and answers are compared


_NOBODY: Counter[str] = Counter()


class Limiter(TokenBuckets):
    """The buckets of one gateway, by address."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        super().__init__(BURST, REFILL_PER_S, monotonic_s)


class Slots:
    """How many of something each may have open at a time, and all together: a stream, an upload.
    `whose` says who has them, as in `project`; `what` are they, in the plural.
    """

    def __init__(self, what: str, whose: str, each_max: Limit, all_max: Limit) -> None:
        self._what, self._whose = what, whose
        self._each_max, self._all_max = each_max, all_max
        self._taken: Counter[str] = Counter()

    @contextlib.contextmanager
    def taken(self, who: str) -> Iterator[None]:
        """One more of `who`, for as long as the context is open. Raises `TooMany`."""
        self.take(who)
        try:
            yield
        finally:
            self.free(who)

    def take(self, who: str) -> None:
        """One more of `who`, until `free`. Raises `TooMany`."""
        self.check(who)
        self._taken[who] += 1

    def check(self, who: str) -> None:
        """Raise `TooMany` when there is no room for one more of `who`."""
        own = self._taken[who]
        if own >= self._each_max.value:
            self._refuse(f"{self._whose} {who}", self._each_max, own)
        if self._taken.total() >= self._all_max.value:
            self._refuse("everybody together", self._all_max, self._all_max.value)

    def free(self, who: str) -> None:
        """It has ended."""
        self._taken[who] -= 1
        if self._taken[who] <= 0:
            del self._taken[who]

    def _refuse(self, whose: str, most: Limit, has: int) -> NoReturn:
        refusal = Refusal(
            field=self._what,
            value=str(has + 1),
            rule=f"{whose} may have at most {most.value} at a time ({most.set_by})",
            instead="try again when one of them has ended",
        )
        raise TooMany(refusal, AGAIN_S_MAX)


def streams() -> Slots:
    """Events, output and sessions that are open."""
    each = limit_of("HEADRACE_STREAMS_PER_USER_MAX", STREAMS_PER_USER_MAX)
    return Slots("streams", "user", each, limit_of("HEADRACE_STREAMS_MAX", STREAMS_MAX))


def pages() -> Slots:
    """Pages of the log that are being looked for."""
    each = limit_of("HEADRACE_LOG_PAGES_PER_USER_MAX", PAGES_PER_USER_MAX)
    return Slots("pages of the log", "user", each, limit_of("HEADRACE_LOG_PAGES_MAX", PAGES_MAX))


def uploads() -> Slots:
    """Folders and contents that are being received."""
    each = limit_of("HEADRACE_UPLOADS_PER_PROJECT_MAX", UPLOADS_PER_PROJECT_MAX)
    return Slots("uploads", "project", each, limit_of("HEADRACE_UPLOADS_MAX", UPLOADS_MAX))


class Room:
    """How many changes wait now for the service that owns a noun, and whose they are. `now_s` is a
    clock that only goes forward.

    So many may wait that the last of them has its answer within `ANSWERED_S`. How many that are, the
    answers tell: where so many waited together for too long, fewer may from then on, in proportion;
    one more may after each that took the last room and still was answered in time. Who finds no room
    is told to come when those who were told so before have been answered.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._waiting: dict[str, Counter[str]] = {}  # by project and asker
        self._count = 0
        self._work_s = 0.0  # what it takes who waits for few
        self._fewer_since_s = 0.0
        self._refused, self._answered, self._counted_since_s = 0, 0, 0.0
        self._again_s = 1
        self.most = CHANGES_FIRST

    @contextlib.contextmanager
    def taken(self, project: str, asker: str) -> Iterator[None]:
        """Room for one change for as long as it is asked for. Raises `TooMany`."""
        began_s, own = self._now_s(), self._waiting.get(project, _NOBODY)
        if self._count >= self.most and not self._has_share(project, asker):
            self._tally(began_s, refused=1)
            whose = f"{own[asker]} requests of {asker} and {self._count - own[asker]} of others"
            line = f"{whose} wait for an answer; send this one again later"
            raise TooMany(line, self._again_s)
        self._waiting.setdefault(project, Counter())[asker] += 1
        self._count += 1
        waited = self._count
        try:
            yield
        finally:
            self._learn(waited, began_s)
            self._count -= 1
            own = self._waiting[project]
            own[asker] -= 1
            if not own[asker]:
                del own[asker]
            if not own:
                del self._waiting[project]

    def _has_share(self, project: str, asker: str) -> bool:
        """Whether there is room that others cannot take: a project has its part of it, whoever else
        is there, and each asker a part of that. All askers of one project together leave a part of
        the most there ever is to a project that is still to come.
        """
        if self._count >= CHANGES_MAX:
            return False
        own = self._waiting.get(project, _NOBODY)
        projects = len(self._waiting) + (project not in self._waiting)
        of_asker = self.most // projects // (len(own) + (asker not in own))
        return own[asker] < of_asker and own.total() < CHANGES_MAX // (projects + 1)

    def _learn(self, waited: int, began_s: float) -> None:
        """So many waited when one came, itself among them, and now it is answered."""
        now_s = self._now_s()
        took_s = now_s - began_s
        self._tally(now_s, answered=1)
        if waited <= FEW:
            self._work_s += (took_s - self._work_s) * WEIGHT
        in_time_s = max(ANSWERED_S, WORK_TIMES_MAX * self._work_s)
        if took_s <= in_time_s:
            if waited >= self.most:
                self.most = min(CHANGES_MAX, self.most + 1)
        elif began_s >= self._fewer_since_s:  # those before tell of the room there was then
            fitting = max(int(waited * in_time_s / took_s), int(self.most * LEFT_AT_ONCE))
            self.most = max(CHANGES_LEAST, min(self.most, fitting))
            self._fewer_since_s = now_s

    def _tally(self, now_s: float, *, refused: int = 0, answered: int = 0) -> None:
        if now_s - self._counted_since_s > COUNTED_S:
            after_s = -(-self._refused // max(1, self._answered))
            self._again_s = min(AGAIN_S_MAX, max(1, after_s))
            self._refused, self._answered, self._counted_since_s = 0, 0, now_s
        self._refused += refused
        self._answered += answered
