"""The door at which durable publishers ask for their project's outcomes, however long they were away.

Rule: the platform holds a durable JetStream consumer for each of them and asks it in their name, for a
publisher with a right on JetStream could have the server write anywhere (see `bus.durables`). An
outcome comes again until it was acknowledged. A consumer lives as long as its publisher's login.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from nats.errors import Error as NatsError

from headrace.bus import subjects
from headrace.bus.durables import Durables, Kept, Lost
from headrace.bus.interface import BusError, Message
from headrace.bus.nats import NatsBus
from headrace.documents.refusing import shown
from headrace.events import Refusal
from headrace.runtime.inbox import refusal_answer
from headrace.runtime.pipelines.cloud_events import JSON
from headrace.runtime.pipelines.durable import PREFIX, Durable

STREAM = "EVENTS"
BATCH_MAX = 100  # outcomes in an answer
ANSWER_BYTES_MAX = 786_432  # of their data, so that the answer is below what the bus carries
WAIT_S_MAX = 30.0  # for the first
WAITING_MAX = 1_024  # questions at a time
WAITING_OF_ONE_MAX = 4  # of them, one publisher's
RETRY_S = 2.0

_LOG = logging.getLogger("headrace.outcomes")
_ENDED = "holds no durable place here"


class Next(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question: what was taken of earlier answers, and how much more, and how long to wait."""

    ack: tuple[str, ...] = ()
    most: int = BATCH_MAX
    wait_s: float = WAIT_S_MAX

    def refusal(self) -> Refusal | None:
        """What is wrong with it."""
        if len(self.ack) > 2 * BATCH_MAX:
            return Refusal(field="ack", rule=f"at most {2 * BATCH_MAX} at a time")
        if not 0 <= self.most <= BATCH_MAX:
            return Refusal(field="most", value=str(self.most), rule=f"is 0 to {BATCH_MAX}")
        if not 0 < self.wait_s <= WAIT_S_MAX:
            return Refusal(field="wait_s", value=str(self.wait_s), rule=f"is up to {WAIT_S_MAX:g}")
        return None


class OutcomesDoor:
    """Keeps the consumers of durable publishers, and answers these."""

    def __init__(self, bus: NatsBus) -> None:
        self._bus = bus
        self._durables: Durables = bus.durables(STREAM)
        self._known: dict[tuple[str, str], Durable] = {}
        self._made: set[str] = set()
        self._is_listed = False
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Answer for ever."""
        while True:
            try:
                await self._bus.subscribe(subjects.DURABLE, self._told)
                await self._bus.subscribe(subjects.OUTCOMES_NEXT, self._asked, group="outcomes")
                break
            except BusError as error:
                _LOG.warning("door not open yet reason=%s", error)
                await asyncio.sleep(RETRY_S)
        await asyncio.Event().wait()

    async def _told(self, message: Message) -> None:
        """These are the durable publishers, and no others. It is said again soon."""
        told = msgspec.json.decode(message.data, type=list[Durable])
        now_us = time.time_ns() // 1_000
        wanted = {each.consumer: each for each in told if each.expires_at_us > now_us}
        self._known = {(each.project, each.name): each for each in wanted.values()}
        try:
            there = await self._durables.names()  # a server may have lost them
            for name in sorted(there - wanted.keys()):
                if name.startswith(PREFIX):
                    await self._durables.delete(name)
            for name in sorted(wanted.keys() - there):
                each = wanted[name]
                await self._durables.ensure(name, f"headrace.event.{each.project}.>", each.since_us)
        except (NatsError, OSError, TimeoutError) as error:
            _LOG.info("consumers not kept yet error=%s", type(error).__name__)

    async def _asked(self, message: Message) -> None:
        _, _, project, name, _ = message.subject.split(".")
        of = (project, name)
        if self._waiting[of] >= WAITING_OF_ONE_MAX or self._waiting.total() >= WAITING_MAX:
            refusal = Refusal(
                field="request", rule="too many are waiting", instead="repeat it soon"
            )
            await self._answer(message, refusal_answer(refusal))
            return
        self._waiting[of] += 1
        task = asyncio.create_task(self._serve(message, of))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._served(done, of))

    def _served(self, task: asyncio.Task[None], of: tuple[str, str]) -> None:
        self._tasks.discard(task)
        self._waiting[of] -= 1
        if not self._waiting[of]:
            del self._waiting[of]
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.info("not answered publisher=%s/%s error=%s", *of, type(error).__name__)

    async def _serve(self, message: Message, of: tuple[str, str]) -> None:
        answer = await self._next(message.data, of)
        await self._answer(
            message, refusal_answer(answer) if isinstance(answer, Refusal) else answer
        )

    async def _next(self, body: bytes, of: tuple[str, str]) -> dict[str, Any] | Refusal:
        asked = _decoded(body)
        known = self._known.get(of)
        if isinstance(asked, Refusal):
            return asked
        if known is None:
            return _none_of(of)
        for token in asked.ack:
            try:
                await self._durables.acknowledge(known.consumer, token)
            except ValueError as error:
                return Refusal(field="ack", value=shown(token), rule=str(error))
        if not asked.most:
            return {"events": []}
        try:
            found = await self._durables.next(known.consumer, asked.most, asked.wait_s)
        except Lost:  # by the bus; it is made anew when it is told of again
            return _none_of(of)
        return {"events": [{"ack": kept.token, "event": _event(kept)} for kept in _fitting(found)]}

    async def _answer(self, message: Message, answer: dict[str, Any]) -> None:
        if message.reply:
            await self._bus.publish(message.reply, msgspec.json.encode(answer))


def _none_of(of: tuple[str, str]) -> Refusal:
    return Refusal(
        field="publisher",
        value="/".join(of),
        rule=_ENDED,
        instead="headrace publisher create NAME --durable; just made: ask again in a moment",
    )


def _decoded(body: bytes) -> Next | Refusal:
    try:
        asked = msgspec.json.decode(body or b"{}", type=Next)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        instead = "a JSON object with ack, most, wait_s"
        return Refusal(field="request", rule=shown(error) or "cannot be read", instead=instead)
    return asked.refusal() or asked


def _fitting(found: list[Kept]) -> list[Kept]:
    """Those that an answer has room for; the others come again."""
    size = 0
    fitting: list[Kept] = []
    for kept in found:
        size += len(kept.data) + sum(len(text) for text in kept.headers.values()) + 512
        if fitting and size > ANSWER_BYTES_MAX:
            break
        fitting.append(kept)
    return fitting


def _event(kept: Kept) -> dict[str, Any]:
    """The outcome as a CloudEvent in structured mode."""
    attributes: Mapping[str, str] = {
        name.removeprefix("ce-"): text
        for name, text in kept.headers.items()
        if name.startswith("ce-") or name == "traceparent"
    }
    return {"datacontenttype": JSON, **attributes, "data": msgspec.Raw(kept.data)}
