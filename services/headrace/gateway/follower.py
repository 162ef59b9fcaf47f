"""Keeps the projection at the head of the log, and the latest events at hand for who follows along.

Rule: the projection is rebuilt from the log at start and nothing else changes it. Whoever has an
answer with a position waits here until the projection has reached it, and reads its own writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from headrace.bus.interface import Bus, BusError
from headrace.events import tag_of
from headrace.events.platform import ServiceLed
from headrace.gateway.evolve import LISTENED, evolve
from headrace.gateway.projection import Projection
from headrace.runtime.clock import Clock
from headrace.runtime.pacing import Pace
from headrace.runtime.reader import LogReader, entry_of
from headrace.store.chained import read_chained
from headrace.store.interface import READ_EVENTS_MAX, Store, Stored, Unavailable

RECENT_EVENTS_MAX = 4_000  # kept in memory for followers; older ones are read from the log
TURNS_APART_S_MAX = 0.005  # where many come: whoever writes waits to see it
OWN_WRITE_S_MAX = 2.0  # how long an answer waits to be visible; then it is given all the same
RETRY_S = 0.2

_LED = tag_of(ServiceLed)

_LOG = logging.getLogger("headrace.gateway")


class Follower:
    """The projection and whoever waits for it."""

    def __init__(self, store: Store, bus: Bus, monotonic_s: Callable[[], float]) -> None:
        self.projection = Projection()
        self.ready = False  # whether the head was reached once
        self.closing = False
        self.on_led: Callable[[], None] = lambda: None  # a service has another leader
        self._store = store
        self._reader = LogReader(store, bus)
        self._clock = Clock(monotonic_s)
        self._recent: deque[Stored] = deque(maxlen=RECENT_EVENTS_MAX)
        self._changed = asyncio.Event()
        self._awaited: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap, by position
        self._numbers = count()

    def now_us(self) -> int:
        """The log's clock now."""
        return self._clock.now_us()

    async def run(self) -> None:
        """Follow the log until cancelled. Raises `Forked`, and `msgspec.ValidationError` or
        `KeyError` for an event that this version cannot read.
        """
        while True:
            try:
                self._clock.set((await self._store.head()).now_us)
                await self._reader.start(self._reader.position, self._reader.hash)
                break
            except (Unavailable, BusError) as error:
                _LOG.warning("log not reached reason=%s", error)
                await asyncio.sleep(RETRY_S)
        pace = Pace(TURNS_APART_S_MAX)
        while True:
            await pace.turn()
            pace.took(await self._turn())
            if not self._reader.due:
                await self._reader.wait()

    def close(self) -> None:
        """End every stream that follows along."""
        self.closing = True
        self._tell()

    async def reached(self, position: int) -> None:
        """Return when the projection has folded `position`, or after `OWN_WRITE_S_MAX`."""
        if self.projection.position >= position or self.closing:
            return
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()
        waits = (position, next(self._numbers), reached)
        heappush(self._awaited, waits)
        timer = loop.call_later(OWN_WRITE_S_MAX, _settle, reached)
        try:
            await reached
        finally:
            timer.cancel()
            if waits in self._awaited:  # for something else, or for too long
                self._awaited.remove(waits)
                heapify(self._awaited)

    async def changed(self, timeout_s: float) -> bool:
        """Wait for the next change of the projection; False when none came in time."""
        changed = self._changed
        try:
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    async def after(self, position: int) -> list[Stored]:
        """The next events after a position, as far as they are folded; possibly none.

        Raises `Unavailable`, and `Forked` when what is read again does not chain.
        """
        if position >= self.projection.position:
            return []
        if self._recent and self._recent[0].position <= position + 1:
            skipped = position + 1 - self._recent[0].position
            stop = min(len(self._recent), skipped + READ_EVENTS_MAX)
            return [self._recent[index] for index in range(skipped, stop)]
        return await read_chained(self._store, position)

    async def _turn(self) -> int:
        """How many events it had."""
        try:
            stored = await self._reader.take()
        except Unavailable as error:
            _LOG.warning("log not reached reason=%s", error)
            await asyncio.sleep(RETRY_S)
            return 0
        for event in stored:
            self._fold(event)
        if stored:
            self._tell()
        if self.ready and any(event.type == _LED for event in stored):
            self.on_led()
        if not self._reader.due:
            if not self.ready:
                self.ready = True
                self._tell()
                _LOG.info("projection ready position=%d", self.projection.position)
        elif stored:
            await asyncio.sleep(0)  # a long log is folded page by page; health answers in between
        return len(stored)

    def _fold(self, event: Stored) -> None:
        self._clock.not_below(event.recorded_at_us)
        self._recent.append(event)
        if event.type in LISTENED:
            evolve(self.projection, entry_of(event))
        else:
            self.projection.position = event.position
            self.projection.at_us = event.recorded_at_us

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        position = self.projection.position
        while self._awaited and (self._awaited[0][0] <= position or self.closing):
            _settle(heappop(self._awaited)[-1])


def _settle(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)
