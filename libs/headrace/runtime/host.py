"""The one loop of turns that runs every deciding service.

Rule: a turn folds what the log has, decides on exactly that, and appends what was decided together
with the facts that arrived meanwhile, in one append. Nothing else appends. State is therefore
always `fold(log[1..position])`, which is what makes every decision reproducible.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headrace.bus.interface import Bus, BusError
from headrace.events import Entry, Fact
from headrace.events.platform import ClockStepped, ServiceLed
from headrace.runtime.answers import Answers
from headrace.runtime.appending import Attempt, attempt_of, tripped
from headrace.runtime.clock import Clock
from headrace.runtime.effects import Effects
from headrace.runtime.folding import Folder
from headrace.runtime.inbox import Inbox
from headrace.runtime.pacing import Pace
from headrace.runtime.pending import PendingFacts, encode_fact
from headrace.runtime.publishing import publish
from headrace.runtime.reader import LogReader
from headrace.runtime.service import Service
from headrace.runtime.suggestions import Suggestions
from headrace.runtime.tracing import record_decisions
from headrace.store.interface import (
    Appended,
    Behind,
    Fenced,
    GuardRefused,
    NoRoom,
    Store,
    Stored,
    Term,
    Unavailable,
    Vault,
)

LEASE_S = 2.5  # a silent leader is replaced after this; with `FOLLOW_S`, within 3 s
RETRY_S = 0.2  # between tries when the store cannot be reached
WAKEUP_S_MIN = 0.002  # a decider whose wakeup has passed without a decision cannot spin
FOLLOW_S = 0.5  # a follower looks this often whether it may lead

_LOG = logging.getLogger("headrace.host")


class Host:
    """Runs one service over a store and a bus. `crashpoint` names the places where a simulated
    process may die; `holder` is this instance's stable name.
    """

    def __init__(
        self,
        service: Service,
        *,
        store: Store,
        bus: Bus,
        vault: Vault,
        monotonic_s: Callable[[], float],
        holder: str,
        decision_version: str,
        crashpoint: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self.service, self.store, self.bus, self.vault = service, store, bus, vault
        self.clock = Clock(monotonic_s)
        self._monotonic_s = monotonic_s
        self._held_until_s = 0.0
        wakes = None if service.relay else service.decider.tags()  # a relay passes all of them on
        self.reader = LogReader(store, bus, wakes)
        self.pending = PendingFacts()
        self.counters: Counter[str] = Counter()
        self.epoch = 0
        self.on_folded: Callable[[Sequence[Stored]], None] = lambda _stored: None
        self._folder = Folder(service.decider, store, decision_version)
        self.suggestions = Suggestions(service.names_of, monotonic_s)
        self.answers = Answers(self)
        self._effects = Effects(service.shell)
        self._inbox = Inbox(self, dict(service.requests), service.posting)
        self._name = service.decider.service
        self._holder, self._version = holder, decision_version
        self._crashpoint = crashpoint
        self._stopping = False
        self._moved = False
        self._pace = Pace(service.turns_apart_s_max)
        self._renewal: asyncio.Task[None] | None = None

    @property
    def state(self) -> Any:
        return self._folder.state

    @property
    def position(self) -> int:
        return self.reader.position

    @property
    def leading(self) -> bool:
        return self.epoch > 0

    @property
    def holds_lease(self) -> bool:
        return self.leading and self._monotonic_s() < self._held_until_s

    def now_us(self) -> int:
        return self.clock.now_us()

    def wake(self) -> None:
        self.reader.wake()

    def record(self, fact: Fact, *, actor: str = "", traceparent: str = "") -> Awaitable[int]:
        event = encode_fact(fact, actor=actor or self._name, traceparent=traceparent)
        self.wake()
        return self.pending.add(event).position

    async def run(self) -> None:
        """Follow, lead when the lease is free, and start over after whatever goes wrong outside,
        until `stop`. Raises `Forked` and `SchemaTooNew`, which no retry can mend.
        """
        self._folder.reset()
        position, hash_ = await self._until_available(self._folder.load)
        await self.reader.start(position, hash_)
        while not self._stopping:
            try:
                await self._follow_then_lead()
            except (Fenced, Unavailable, BusError) as error:
                if self.leading:
                    _LOG.warning("%s no longer leads reason=%s", self._name, _reason(error))
                await asyncio.sleep(RETRY_S)
            finally:
                await self._stand_down()

    async def stop(self) -> None:
        """End after the current turn; the lease is given back and a snapshot kept."""
        self._stopping = True
        self.wake()

    async def _follow_then_lead(self) -> None:
        term: Term | None = None
        while term is None and not self._stopping:
            self._fold(await self.reader.take())
            self._held_until_s = self._monotonic_s() + LEASE_S
            term = await self.store.lead(self._name, self._holder, LEASE_S)
            if term is None:
                await self.reader.wait(FOLLOW_S)
        if term is not None:
            await self._lead(term)

    async def _lead(self, term: Term) -> None:
        self._renewal = asyncio.create_task(self._renew(term))
        await self._catch_up()
        self.epoch = term.epoch
        settings = dict(self.service.settings)
        led = ServiceLed(
            service=self._name,
            epoch=term.epoch,
            decision_version=self._version,
            settings=settings,
        )
        self.record(led)
        await self._append(attempt_of(self, [], self.now_us()))
        self._effects.begin(self)
        await self._inbox.open(self.bus)
        _LOG.info("%s leads epoch=%d position=%d", self._name, term.epoch, self.position)
        while not self._stopping and self.leading:
            if not (self.pending or self.reader.due or self._moved):
                await self.reader.wait(self._until_wakeup_s())
            await self._pace.turn()
            stored = await self.reader.take()
            events = len(stored) + len(self.pending)
            await self._turn(stored)
            self._pace.took(events)
        await self._resign(term)

    async def _resign(self, term: Term) -> None:
        """Take and promise nothing more, then let another lead; what is kept for a later start waits."""
        await self._inbox.close()
        await self._effects.end()
        self.epoch = 0
        await self.store.resign(self._name, self._holder, term.epoch)
        await self._folder.save(self.reader.position, self.reader.hash)

    async def _turn(self, stored: list[Stored]) -> None:
        """Fold, decide, append; the decisions are folded before anything is decided again."""
        entries = self._fold(stored)
        now_us = self.now_us()
        drafts = self.service.decider.decide(self.state, now_us)
        self._moved = bool(drafts or self.pending)  # what is appended now may lead to more at once
        if self._moved:
            entries.extend(await self._append(attempt_of(self, drafts, now_us)))
        self._crashpoint("runtime.before_effects")
        self._effects.add(entries)
        self._inbox.follow()
        await self.answers.give(entries)
        self._crashpoint("runtime.after_effects")
        self._folder.save_when_due(self.reader.position, self.reader.hash)

    async def _append(self, attempt: Attempt) -> list[Entry]:
        basis, basis_hash = self.reader.position, self.reader.hash
        self._crashpoint("runtime.before_append")
        try:
            appended = await self.store.append(
                self._name, self.epoch, basis, basis_hash, attempt.events
            )
        except Behind:  # an append that seemed lost had succeeded: read it, then decide again
            return await self._catch_up()
        except NoRoom as error:
            return await self._without_room(error)
        except Unavailable as error:
            _LOG.warning("%s append outcome unknown reason=%s", self._name, _reason(error))
            await asyncio.sleep(RETRY_S)
            return await self._catch_up()
        except GuardRefused as refused:
            self.counters["guards_tripped"] += 1
            _LOG.error("%s guard tripped key=%s", self._name, refused.key)
            self.record(tripped(attempt, refused.key))
            return await self._append(attempt_of(self, [], self.now_us()))
        self._crashpoint("runtime.after_append")
        return await self._committed(attempt, appended)

    async def _without_room(self, error: NoRoom) -> list[Entry]:
        """Nothing was appended. Requests are answered so and dropped; what this service itself has to
        say waits until there is room.
        """
        _LOG.error("%s appends nothing reason=%s", self._name, _reason(error))
        await self.answers.without_room(self.pending.take_requests())
        await asyncio.sleep(RETRY_S)
        return await self._catch_up()

    async def _committed(self, attempt: Attempt, appended: Appended) -> list[Entry]:
        """Tell the others first: they need not wait for what this service makes of it."""
        self._crashpoint("runtime.before_publish")
        await publish(self.bus, appended.events)
        self._crashpoint("runtime.after_publish")
        self.counters["appends"] += 1
        self.counters["events_appended"] += len(appended.events)
        self.clock.set(appended.now_us)
        self._note_step()
        self.pending.settle(appended, attempt.facts)
        self.answers.expect(attempt.facts, appended)
        entries = self._fold(self.reader.own(appended.events), settled=True)
        if appended.events and self.reader.position < appended.events[-1].position:
            entries.extend(await self._catch_up())
        record_decisions(self._name, entries)
        return entries

    def _fold(self, stored: Sequence[Stored], *, settled: bool = False) -> list[Entry]:
        """Fold events of the log; facts of ours that nobody said were appended are settled."""
        if not stored:
            return []
        self.clock.not_below(stored[-1].recorded_at_us)
        if not settled and self.pending:
            for event in stored:
                fact = self.pending.found(event)
                if fact is not None:
                    self.answers.expect_one(fact, event.position)
        self.on_folded(stored)
        return self._folder.fold(stored)

    async def _catch_up(self) -> list[Entry]:
        """Fold everything up to the head of the log, however long the store is away meanwhile:
        what was folded must reach the effects and the answers.
        """
        self.reader.look()
        entries: list[Entry] = []
        while self.reader.due:
            entries.extend(self._fold(await self._until_available(self.reader.take)))
        return entries

    def _until_wakeup_s(self) -> float | None:
        wakeup_us = self.service.decider.wakeup(self.state)
        if wakeup_us is None:
            return None
        return max(WAKEUP_S_MIN, (wakeup_us - self.now_us()) / 1_000_000)

    async def _renew(self, term: Term) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            until_s = self._monotonic_s() + LEASE_S
            try:
                held = await self.store.renew(self._name, self._holder, term.epoch, LEASE_S)
            except Unavailable:
                continue  # the next append tells whether somebody else leads
            self._held_until_s = until_s
            self._note_step()
            if not held:
                self.epoch = 0
                self.wake()
                return

    def _note_step(self) -> None:
        """A clock that was set is a fact."""
        if self.leading and (by_us := self.store.stepped_us()):
            _LOG.warning("the database's clock was set by_s=%.1f", by_us / 1_000_000)
            self.record(ClockStepped(by_us=by_us))

    async def _stand_down(self) -> None:
        self.epoch = 0
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        await self._inbox.close()
        await self._effects.end()
        self.pending.cancel()
        self.answers.forget()

    async def _until_available(self, read: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await read()
            except Unavailable as error:
                _LOG.warning("%s store unavailable reason=%s", self._name, _reason(error))
                await asyncio.sleep(RETRY_S)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
