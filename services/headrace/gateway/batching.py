"""How requests get to the services: alone, or several in one message.

Rule: who comes alone waits for nobody; while `IN_FLIGHT_MAX` messages about one subject have no answer
yet, what comes gathers, and goes in one message when one is answered. What comes of a request is its
own, however it travelled. What was sent to a leader that is no more has no answer, and is told so at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from headrace.bus.interface import Bus, BusError, NoReply
from headrace.runtime import together

# With few, whoever came just too late waits for two answers; with many, hardly any go together.
IN_FLIGHT_MAX = 8


class _Waiting(NamedTuple):
    request: together.Request
    answer: asyncio.Future[bytes]
    timeout_s: float


class Batching:
    """Sends requests over this bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._in_flight: Counter[str] = Counter()  # messages, by subject
        self._answerable: set[asyncio.Timeout] = set()  # one for each of them
        self._waiting: dict[str, deque[_Waiting]] = {}  # by subject
        self._sending: set[asyncio.Task[None]] = set()

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> bytes:
        """Its answer. Raises `NoReply`, `NotConnected`."""
        if self._in_flight[subject] < IN_FLIGHT_MAX:
            self._in_flight[subject] += 1
            try:
                return await self._sent(subject, data, headers, timeout_s)
            finally:
                self._answered(subject)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(together.Request(dict(headers), data), answer, timeout_s)
        self._waiting.setdefault(subject, deque()).append(waiting)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise NoReply("others were not answered in time") from None

    def give_up(self) -> None:
        """Let those whose messages are on their way ask again: another leader listens now."""
        now_s = asyncio.get_running_loop().time()
        for each in self._answerable:
            if not each.expired():
                each.reschedule(now_s)

    async def _sent(
        self, subject: str, data: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> bytes:
        try:
            async with asyncio.timeout(None) as answerable:
                self._answerable.add(answerable)
                try:
                    return (await self._bus.request(subject, data, headers, timeout_s)).data
                finally:
                    self._answerable.discard(answerable)
        except TimeoutError:
            raise NoReply("another leads now") from None

    def _answered(self, subject: str) -> None:
        """One message fewer is in flight: what gathered goes."""
        self._in_flight[subject] -= 1
        batch = self._next_batch(subject)
        if batch:
            self._in_flight[subject] += 1
            sending = asyncio.create_task(self._send(subject, batch))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)
        elif not self._in_flight[subject]:
            del self._in_flight[subject]

    def _next_batch(self, subject: str) -> list[_Waiting]:
        """In their order, as many as fit into a message; those that gave up are left out."""
        waiting = self._waiting.get(subject)
        batch: list[_Waiting] = []
        size = 0
        while waiting and len(batch) < together.REQUESTS_MAX:
            if waiting[0].answer.done():
                waiting.popleft()
                continue
            size += len(waiting[0].request.body)
            if batch and size > together.BODIES_BYTES_MAX:
                break
            batch.append(waiting.popleft())
        if waiting is not None and not waiting:
            del self._waiting[subject]
        return batch

    async def _send(self, subject: str, batch: Sequence[_Waiting]) -> None:
        try:
            answers = await self._answers(subject, batch)
        except (BusError, msgspec.MsgspecError) as error:
            _fail(batch, str(error), type(error) if isinstance(error, BusError) else NoReply)
        else:
            for each, answer in zip(batch, answers, strict=False):
                if answer and not each.answer.done():
                    each.answer.set_result(answer)
            _fail(batch, "not answered with the others", NoReply)
        finally:
            self._answered(subject)

    async def _answers(self, subject: str, batch: Sequence[_Waiting]) -> list[bytes]:
        timeout_s = max(each.timeout_s for each in batch)
        if len(batch) == 1:
            alone = batch[0].request
            return [await self._sent(subject, alone.body, alone.headers, timeout_s)]
        data, headers = together.message_of([each.request for each in batch])
        return together.answers_of(await self._sent(subject, data, headers, timeout_s))


def _fail(batch: Sequence[_Waiting], why: str, kind: type[BusError]) -> None:
    """Tell those who have no answer yet."""
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(kind(why))
