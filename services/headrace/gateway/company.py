"""How requests get to the services: alone, or several of one moment in one message.

Rule: who comes alone waits for nobody; what comes of a request is its own, however it travelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headrace.bus.interface import Bus, BusError, NoReply
from headrace.runtime import together
from headrace.runtime.pacing import Company, Pace

ASKED_APART_S, ASKED_FREE = 0.008, 4  # of many requests those of a moment are sent together


class _Passenger(NamedTuple):
    request: together.Request
    answer: asyncio.Future[bytes]
    timeout_s: float


class Carriage:
    """Sends requests over this bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._company = Company(Pace(ASKED_APART_S, ASKED_FREE))
        self._boarding: dict[str, list[_Passenger]] = {}  # by subject
        self._sending: set[asyncio.Task[None]] = set()

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> bytes:
        """Its answer. Raises `NoReply`, `NotConnected`."""
        if not await self._company.go():
            return (await self._bus.request(subject, data, headers, timeout_s)).data
        loop = asyncio.get_running_loop()
        request = together.Request(dict(headers), data)
        passenger = _Passenger(request, loop.create_future(), timeout_s)
        if subject not in self._boarding:
            self._boarding[subject] = []
            loop.call_soon(self._leave, subject)  # once all whose time it is are here
        self._boarding[subject].append(passenger)
        return await passenger.answer

    def _leave(self, subject: str) -> None:
        for party in _parties(self._boarding.pop(subject)):
            sending = asyncio.create_task(self._carry(subject, party))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _carry(self, subject: str, party: Sequence[_Passenger]) -> None:
        try:
            answers = await self._answers(subject, party)
        except (BusError, msgspec.MsgspecError) as error:
            _fail(party, str(error), type(error) if isinstance(error, BusError) else NoReply)
            return
        for each, answer in zip(party, answers, strict=False):
            if answer and not each.answer.done():
                each.answer.set_result(answer)
        _fail(party, "not answered with the others", NoReply)

    async def _answers(self, subject: str, party: Sequence[_Passenger]) -> list[bytes]:
        timeout_s = max(each.timeout_s for each in party)
        if len(party) == 1:
            alone = party[0].request
            return [(await self._bus.request(subject, alone.body, alone.headers, timeout_s)).data]
        data, headers = together.message_of([each.request for each in party])
        return together.answers_of(
            (await self._bus.request(subject, data, headers, timeout_s)).data
        )


def _fail(party: Sequence[_Passenger], why: str, kind: type[BusError]) -> None:
    """Tell those who have no answer yet."""
    for each in party:
        if not each.answer.done():
            each.answer.set_exception(kind(why))


def _parties(passengers: Sequence[_Passenger]) -> Iterator[Sequence[_Passenger]]:
    """In their order, as many as fit into a message each time."""
    party: list[_Passenger] = []
    size = 0
    for each in passengers:
        size += len(each.request.body)
        if party and (size > together.BODIES_BYTES_MAX or len(party) == together.REQUESTS_MAX):
            yield party
            party, size = [], len(each.request.body)
        party.append(each)
    yield party
