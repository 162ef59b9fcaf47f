"""Follows the log: events come over the bus, gaps and silence are healed from the store.

Rule: an event is handed on only when it is the very next one and chains onto what came before;
anything else is read from the store. Nobody is woken for events that change nothing for them: those are
taken with the next that does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

from headrace.bus import subjects
from headrace.bus.interface import Bus, Message, Subscription
from headrace.events import Entry, decode, decode_header, project_of
from headrace.runtime import log_messages
from headrace.store.interface import GENESIS, READ_EVENTS_MAX, Forked, Store, Stored, follows

POLL_S = 1.0  # how long silence on a connected bus is believed
POLL_DISCONNECTED_S = 0.2  # how long when the bus is gone
GAP_GRACE_S = 0.002  # publishers race: the missing event is usually on its way
UNWOKEN_S = 0.25  # how long at most what changes nothing waits to be taken
AHEAD_EVENTS_MAX = 20_000  # events kept beyond a gap; more are read from the store again


class LogReader:
    """The log from a position on, in order, each event once. `wait` returns at once for events of the
    types `wakes` (None: all), for others soon.
    """

    def __init__(self, store: Store, bus: Bus, wakes: Collection[str] | None = None) -> None:
        self._store = store
        self._bus = bus
        self._wakes = wakes
        self._waking: asyncio.TimerHandle | None = None
        self.position = 0
        self.hash = GENESIS
        self.healed = 0  # times a gap or silence was healed from the store
        self._ahead: dict[int, Stored] = {}
        self._wake = asyncio.Event()
        self._read_due = True
        self._subscription: Subscription | None = None
        self._last_heard_s = 0.0

    @property
    def due(self) -> bool:
        """Whether `take` would read from the store."""
        return self._read_due

    async def start(self, position: int = 0, hash_: bytes = GENESIS) -> None:
        """Follow from just after `position`, whose hash is `hash_`."""
        self.position, self.hash = position, hash_
        if self._subscription is None:
            self._subscription = await self._bus.listen(subjects.LOG, self._heard)

    async def stop(self) -> None:
        """Stop listening."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        if self._subscription is not None:
            await self._subscription.stop()
            self._subscription = None

    def wake(self) -> None:
        """Make a waiting `wait` return."""
        self._wake.set()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return when events may be there, when woken, or after `timeout_s`; and when it is time
        to look into the store because nothing was heard.
        """
        poll_s = POLL_S if self._bus.connected else POLL_DISCONNECTED_S
        loop = asyncio.get_running_loop()
        due_s = max(0.0, self._last_heard_s + poll_s - loop.time())
        limit_s = due_s if timeout_s is None else min(due_s, timeout_s)
        if not self._wake.is_set():
            timer = loop.call_later(limit_s, self._wake.set)
            await self._wake.wait()
            timer.cancel()
        self._wake.clear()
        if loop.time() >= self._last_heard_s + poll_s:
            self._read_due = True

    async def take(self) -> list[Stored]:
        """The next events in line, verified; possibly none. Fold them before calling again: they
        count as read. Raises `Unavailable`, and `Forked` when the store's own log does not chain
        onto what was read before.
        """
        events = await self._from_store() if self._read_due else []
        events.extend(self._next_ahead())
        return events

    def look(self) -> None:
        """Make the next `take` read from the store; `due` tells when the head is reached."""
        self._read_due = True

    def own(self, appended: Sequence[Stored]) -> list[Stored]:
        """What this service has just appended: handed on at once when it is next in line, else
        the gap before it is due to be read.
        """
        for event in appended:
            self._keep(event)
        events = self._next_ahead()
        if appended and self.position < appended[-1].position:
            self._read_due = True
            self._wake.set()
        return events

    async def entries(self, after: int = 0) -> AsyncIterator[list[Entry]]:
        """Batches of decoded entries for ever, for readers that keep a projection."""
        hash_ = GENESIS
        if after:
            before = await self._store.read(after - 1, 1)
            hash_ = before[0].hash if before else GENESIS
        await self.start(after, hash_)
        while True:
            stored = await self.take()
            if stored:
                yield [entry_of(event) for event in stored]
            if not self._read_due:
                await self.wait()

    def _heard(self, message: Message) -> None:
        self._last_heard_s = asyncio.get_running_loop().time()
        news = [e for e in log_messages.decode(message.data) if e.position > self.position]
        if not news:
            return
        before = news[0].position - 1
        is_next = before == self.position or before in self._ahead
        for event in news:
            self._keep(event)
        if not is_next:
            asyncio.get_running_loop().call_later(GAP_GRACE_S, self._check_gap)
        elif self._changes_something(news):
            self._wake.set()
        elif self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(UNWOKEN_S, self._wake_late)

    def _changes_something(self, news: Sequence[Stored]) -> bool:
        """Whether to wake for these: for one of them, or for what came before them out of order."""
        if self._wakes is None or news[-1].position + 1 in self._ahead:
            return True
        return any(event.type in self._wakes for event in news)

    def _wake_late(self) -> None:
        self._waking = None
        if self._ahead:
            self._wake.set()

    def _keep(self, event: Stored) -> None:
        if event.position > self.position and len(self._ahead) < AHEAD_EVENTS_MAX:
            self._ahead[event.position] = event

    def _check_gap(self) -> None:
        if self._ahead and self.position + 1 not in self._ahead:
            self._read_due = True
            self._wake.set()

    def _next_ahead(self) -> list[Stored]:
        events: list[Stored] = []
        while (event := self._ahead.pop(self.position + 1, None)) is not None:
            if not follows(event, self.position, self.hash):
                self._ahead.clear()  # forged, or of another history: the store decides
                self._read_due = True
                break
            events.append(event)
            self.position, self.hash = event.position, event.hash
        if self._ahead and not events:
            self._ahead = {p: e for p, e in self._ahead.items() if p > self.position}
        return events

    async def _from_store(self) -> list[Stored]:
        events = await self._store.read(self.position, READ_EVENTS_MAX)
        self._last_heard_s = asyncio.get_running_loop().time()
        self._read_due = len(events) == READ_EVENTS_MAX
        self.healed += bool(events)
        for event in events:
            if not follows(event, self.position, self.hash):
                raise Forked(f"position {event.position} does not follow {self.position}")
            self.position, self.hash = event.position, event.hash
            self._ahead.pop(event.position, None)
        return events


def entry_of(event: Stored) -> Entry:
    """The decoded form of a stored event. Raises `KeyError` for an unknown type, and `Forked` when its
    project is not the one it speaks of: who may see it is judged by that column.
    """
    decoded = decode(event.type, event.data)
    if project_of(decoded) != event.project:
        raise Forked(
            f"position {event.position} is recorded for project {event.project!r}"
            f" and is about {project_of(decoded)!r}"
        )
    return Entry(
        position=event.position,
        recorded_at_us=event.recorded_at_us,
        header=decode_header(event.header),
        event=decoded,
    )
