"""Keeps the bus's streams: the log's copy, each project's events, kept requests, dead letters.

Rule: a stream is a cache that can be rebuilt. The stream `LOG` fences relays by itself: an event is
stored only after the one before it, so its sequence is the event's position whoever relays. Projects
wait for their events and nobody for the log's copy, which follows in its own time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice

import msgspec

from headrace.bus import subjects
from headrace.bus.handling import end
from headrace.bus.interface import (
    Bus,
    BusError,
    Message,
    StreamSpec,
    StreamState,
    WrongSequence,
)
from headrace.events import Refusal
from headrace.events.platform import LogBegan, others_log_text, own_lines
from headrace.runtime import log_messages, posts
from headrace.runtime.inbox import refusal_answer, tell_answer
from headrace.runtime.pacing import Pace
from headrace.runtime.pipelines.cloud_events import JSON
from headrace.runtime.pipelines.outcomes import Outcomes
from headrace.store.chained import read_chained
from headrace.store.interface import Forked, Store, Stored, Unavailable

HEARD_EVENTS_MAX = 10_000  # kept until they are relayed; older ones are read again
WINDOW_EVENTS = 100  # sent in a row; the last one's acknowledgement stands for all
COPY_RESTS = 9  # times as long as a window took to copy: what comes meanwhile is the next one
COPY_REST_S_MAX = 0.1
UNCOPIED_EVENTS_MAX = 1_000  # told and not yet copied; after an interruption they are told again
TAIL_EVENTS_MAX = 100_000  # a stream made anew begins at most this far back
TURNS_APART_S_MAX = 0.02  # where many events come: fewer, larger windows cost less
POLL_S = 5.0  # when nothing was committed here, another service may have
RETRY_S = 0.5
DAY_S = 86_400
GIBIBYTE = 2**30
DEAD_PER_PROJECT_MAX = 200  # the oldest of a project's own go first
EVENTS_PER_SUBJECT_MAX = 20_000  # of one project and type, likewise
CHECKED_TOGETHER = 32  # of the projects' streams
TOLD_APART_S = 60.0  # that a project's posts have no room

DEADLETTER = StreamSpec(
    name="DEADLETTER",
    subjects=("headrace.deadletter.>",),
    age_s_max=7 * DAY_S,
    bytes_max=GIBIBYTE // 16,
    messages_per_subject_max=DEAD_PER_PROJECT_MAX,
)
EVENTS = StreamSpec(
    name="EVENTS",
    subjects=("headrace.event.>",),
    age_s_max=7 * DAY_S,
    bytes_max=GIBIBYTE,
    messages_per_subject_max=EVENTS_PER_SUBJECT_MAX,
)
KEPT = (DEADLETTER, EVENTS)

_LOG = logging.getLogger("headrace.relay")


class Relay:
    """Copies the log to the streams, as fast as it grows. `heard` spares it reading the store."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store = store
        self._bus = bus
        self._grown = asyncio.Event()
        self._position = 0
        self._checked_s = 0.0
        self._pace = Pace(TURNS_APART_S_MAX)
        self._next: deque[Stored] = deque(maxlen=HEARD_EVENTS_MAX)
        self._outcomes = Outcomes(store)
        self._must_read = True
        self._hears = False
        self._posts_bytes_max = posts.bytes_max()
        self._uncopied: deque[Stored] = deque()
        self._copy_due, self._copy_grown = asyncio.Event(), asyncio.Event()
        self._posting: dict[str, StreamSpec] = {}  # by project; those checked last are the last
        self._told_s: dict[str, float] = {}  # projects that were told that there is no room

    def heard(self, events: Sequence[Stored]) -> None:
        """These events of the log, in order. Missing some is no harm: they are read then."""
        self._next.extend(events)
        self._grown.set()

    async def run(self) -> None:
        """Relay for ever; after anything that fails, start over from what the stream holds."""
        while not self._hears:
            try:
                await self._bus.subscribe(subjects.POSTING, self._told_posting)
                self._hears = True
            except BusError as error:
                _LOG.warning("relay hears nobody yet reason=%s", error)
                await asyncio.sleep(RETRY_S)
        while True:
            copying: asyncio.Task[None] | None = None
            try:
                await self._resume()
                copying = asyncio.create_task(self._copy())
                copying.add_done_callback(self._copy_ended)
                while not copying.done():
                    await self._step()
                copying.result()
            except (BusError, Forked, Unavailable) as error:
                level = logging.INFO if isinstance(error, WrongSequence) else logging.WARNING
                _LOG.log(level, "relay starts over reason=%s: %s", type(error).__name__, error)
                await asyncio.sleep(RETRY_S)
            finally:
                if copying is not None:
                    await end(copying)

    async def _resume(self) -> None:
        for spec in (*KEPT, *self._posting.values()):
            await self._bus.ensure_stream(spec)
        self._checked_s = asyncio.get_running_loop().time()
        lines = own_lines(
            msgspec.json.decode(event.data, type=LogBegan)
            for event in await self._store.read_stream("log")
        )
        lineage = lines[-1] if lines else ""
        head = (await self._store.head()).position
        state = await self._bus.stream_state("LOG")
        if state is not None and state.lineage not in ("", *lines):
            raise BusError(others_log_text(state.lineage))
        if state is not None and (state.last > head or state.lineage not in ("", lineage)):
            await self._bus.delete_stream(
                "LOG"
            )  # of a log, or a line of its history, that is no more
            state = None
        if state is None:
            first = max(1, head - TAIL_EVENTS_MAX + 1)
            state = await self._bus.ensure_stream(log_stream(first, lineage))
        self._position = state.last
        self._uncopied.clear()
        self._must_read = True

    async def _step(self) -> None:
        self._grown.clear()  # what is heard while the store is read makes `_wait` return at once
        events = self._heard_next()
        if not events and self._must_read:
            events = await read_chained(self._store, self._position, WINDOW_EVENTS)
            self._must_read = len(events) == WINDOW_EVENTS
        if events:
            await self._relay(events)
            self._pace.took(len(events))
            self._position = events[-1].position
            if asyncio.get_running_loop().time() - self._checked_s > POLL_S:
                await self._check_kept()
        elif not self._must_read:
            await self._wait()

    def _heard_next(self) -> list[Stored]:
        """The next events in line, of those that were heard; a gap before them has to be read."""
        while self._next and self._next[0].position <= self._position:
            self._next.popleft()
        self._must_read |= bool(self._next) and self._next[0].position > self._position + 1
        events: list[Stored] = []
        while self._next and len(events) < WINDOW_EVENTS:
            if self._next[0].position != self._position + 1 + len(events):
                break
            events.append(self._next.popleft())
        return events

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_S):
                await self._grown.wait()
        except TimeoutError:
            await self._check_copy()
            await self._check_kept()
            self._must_read = True
        else:
            await self._pace.turn()

    async def _relay(self, events: Sequence[Stored]) -> None:
        """Project events first: the log's copy tells how far both have come."""
        for event in events:
            await self._tell_project(event)
        self._uncopied.extend(events)
        self._copy_due.set()
        while len(self._uncopied) > UNCOPIED_EVENTS_MAX:
            self._copy_grown.clear()
            await self._copy_grown.wait()

    async def _copy(self) -> None:
        """Copy what was told, for ever. Raises `BusError`."""
        loop = asyncio.get_running_loop()
        while True:
            await self._copy_due.wait()
            began_s = loop.time()
            while self._uncopied:
                await self._copy_window(list(islice(self._uncopied, WINDOW_EVENTS)))
                self._copy_grown.set()
            self._copy_due.clear()
            await asyncio.sleep(min(COPY_RESTS * (loop.time() - began_s), COPY_REST_S_MAX))

    async def _copy_window(self, events: Sequence[Stored]) -> None:
        for event in events[:-1]:
            headers = {"Nats-Expected-Last-Sequence": str(event.position - 1)}
            await self._bus.publish(_subject(event), log_messages.encode(event), headers)
        last = events[-1]
        sequence = await self._bus.store(
            _subject(last), log_messages.encode(last), {}, last.position - 1
        )
        if sequence != last.position:
            await self._bus.delete_stream("LOG")
            raise WrongSequence(f"LOG stored position {last.position} as {sequence}")
        for _ in events:
            self._uncopied.popleft()

    def _copy_ended(self, copying: asyncio.Task[None]) -> None:
        """Whoever waits for events, or for room, starts over."""
        if not copying.cancelled():
            copying.exception()  # it is raised once more by `run`, or another came first
        self._uncopied.clear()
        self._copy_grown.set()
        self._grown.set()

    async def _tell_project(self, event: Stored) -> None:
        """One event that cannot be told must not keep the others from their projects."""
        try:
            told = await self._outcomes.of(event)
            subject = subjects.event(told.project, told.type) if told else ""
        except ValueError as error:  # msgspec's are such, and a name's that is no token
            _LOG.warning(
                "event not told position=%d type=%s error=%s", event.position, event.type, error
            )
            return
        if told is not None:
            headers = {**told.headers, "ce-datacontenttype": JSON}
            headers["Nats-Msg-Id"] = f"event-{event.position}"
            await self._bus.publish(subject, told.body, headers)

    async def _told_posting(self, message: Message) -> None:
        """These projects may post, and no others. Raises `BusError`: it is said again soon."""
        projects = msgspec.json.decode(message.data, type=list[str])
        for project in [known for known in self._posting if known not in projects]:
            await self._bus.delete_stream(posts.stream_of(project))
            del self._posting[project]
            self._told_s.pop(project, None)
        for project in projects:
            if project not in self._posting:
                spec = posts.spec_of(project, self._posts_bytes_max)
                await self._bus.ensure_stream(spec)
                self._posting[project] = spec

    async def _check_copy(self) -> None:
        state = await self._bus.stream_state("LOG")
        if not self._uncopied and (state is None or state.last != self._position):
            raise WrongSequence("the stream LOG is not where it was left")

    async def _check_kept(self) -> None:
        """A server can lose one stream alone; nothing stored would fail because of it."""
        self._checked_s = asyncio.get_running_loop().time()
        turn = list(islice(self._posting.items(), CHECKED_TOGETHER))
        for project, spec in turn:
            self._posting[project] = self._posting.pop(project, spec)
        for spec in KEPT:
            await self._kept(spec)
        for project, spec in turn:
            refusal = posts.room_refusal(project, await self._kept(spec), self._posts_bytes_max)
            if refusal is not None:
                await self._tell_full(project, refusal)

    async def _kept(self, spec: StreamSpec) -> StreamState:
        state = await self._bus.stream_state(spec.name)
        if state is None:
            raise BusError(f"the stream {spec.name} is gone")
        return state

    async def _tell_full(self, project: str, refusal: Refusal) -> None:
        """The bus says to nobody what it did not keep: it would say it wherever the sender wants."""
        if self._checked_s < self._told_s.get(project, -TOLD_APART_S) + TOLD_APART_S:
            return
        self._told_s[project] = self._checked_s
        await tell_answer(self._bus, project, refusal_answer(refusal), at_us=time.time_ns() // 1000)


def log_stream(first: int, lineage: str = "") -> StreamSpec:
    """The log's copy on the bus, whose sequences are positions from `first` on."""
    return StreamSpec(
        name="LOG",
        subjects=("headrace.relay.log.>",),
        age_s_max=7 * DAY_S,
        bytes_max=4 * GIBIBYTE,
        first_sequence=first,
        lineage=lineage,
    )


def _subject(event: Stored) -> str:
    return f"headrace.relay.log.{event.type}"
