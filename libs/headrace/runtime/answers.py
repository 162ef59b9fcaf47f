"""Tells whoever asked what was decided.

Rule: an answer is given only for a decision that is in the log, and carries its position. A repeated
request gets the answer of the original one, read from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from headrace.bus.interface import BusError
from headrace.events import CATALOGUE, Decision, Entry, Refusal, decode, project_of
from headrace.runtime.inbox import no_room_answer, refusal_answer
from headrace.runtime.pending import PendingFact, Reply
from headrace.runtime.reader import entry_of
from headrace.runtime.service import Runtime, Service
from headrace.runtime.suggestions import Suggestions
from headrace.store.chained import read_one
from headrace.store.interface import Appended, Store, StoreError

KEYS_MAX = 20_000  # request keys remembered for the headers of the decisions that answer them

_LOG = logging.getLogger("headrace.answers")


class _Host(Runtime, Protocol):
    service: Service
    store: Store
    suggestions: Suggestions


class Answers:
    """Who waits for which decision, by the position of the fact it answers."""

    def __init__(self, host: _Host) -> None:
        self._host = host
        self._waiting: dict[int, list[Reply]] = {}
        self._requests: dict[int, tuple[str, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def request_of(self, causation: int) -> tuple[str, str]:
        """Source and key of the request recorded at this position, if known."""
        return self._requests.get(causation, ("", ""))

    def expect(self, facts: Sequence[PendingFact], appended: Appended) -> None:
        """These facts are in the log now, or repeated what was there before."""
        for stored, index in zip(appended.events, appended.indexes, strict=True):
            if index < len(facts):
                self.expect_one(facts[index], stored.position)
        for duplicate in appended.duplicates:
            fact = facts[duplicate.index]
            if fact.reply is not None:
                self._start(self._repeat(fact, fact.reply, duplicate.position, duplicate.same))

    def expect_one(self, fact: PendingFact, position: int) -> None:
        """The fact is at this position: whoever asked waits for the decision on it."""
        if fact.event.request_key:
            self._requests[position] = (fact.event.request_source, fact.event.request_key)
            if len(self._requests) > KEYS_MAX:
                del self._requests[next(iter(self._requests))]
        if fact.reply is not None and CATALOGUE[fact.event.type].is_record:
            self._start(self._send(fact.reply, _recorded(position)))
        elif fact.reply is not None:
            self._waiting.setdefault(position, []).append(fact.reply)

    async def give(self, entries: Sequence[Entry]) -> None:
        """Answer everybody whose request one of these decisions answers."""
        if not self._waiting:
            return
        given: list[tuple[Reply, dict[str, Any]]] = []
        for entry in entries:
            replies = self._waiting.pop(entry.header.causation, None)
            if replies and isinstance(entry.event, Decision):
                answer = await self._answer(entry)
                given += [(reply, answer) for reply in replies]
        if given:
            self._start(self._send_all(given))

    async def without_room(self, requests: Sequence[PendingFact]) -> None:
        """The log takes nothing now: tell those who asked, also those whose request it has already and
        whose decision it has not.
        """
        given = [(fact.reply, no_room_answer()) for fact in requests if fact.reply is not None]
        for position, replies in self._waiting.items():
            given += [(reply, _undecided(position)) for reply in replies]
        self._waiting.clear()
        await self._send_all(given)

    def forget(self) -> None:
        """Leadership ended: whoever asks again is answered by the next leader."""
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def _start(self, sending: Any) -> None:
        task = asyncio.create_task(sending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(self, fact: PendingFact, reply: Reply, position: int, same: bool) -> None:
        key = fact.event.request_key
        if not same:
            rule = f"was used at position {position} for a different {await self._other(fact, position)}"
            refusal = Refusal(field=f"idempotency key {key}", rule=rule)
            await self._send(reply, refusal_answer(refusal, position))
            return
        # Its decision answers this one too, and may be made while the log is searched for it.
        self._waiting.setdefault(position, []).append(reply)
        try:
            answer = await self._original(position)
        except StoreError as error:
            _LOG.warning("repeated request not answered error=%s", error)
            return
        if answer is not None and reply in self._waiting.get(position, ()):
            self._waiting[position].remove(reply)
            await self._send(reply, answer)

    async def _other(self, fact: PendingFact, position: int) -> str:
        """What a key was used for before, and how this differs, as far as that can be told."""
        differing, new = self._host.service.differing, fact.event
        names: Sequence[str] = ()
        if differing is not None:
            try:
                old = await read_one(self._host.store, position)
                if old.type == new.type:
                    events = decode(old.type, old.data), decode(new.type, new.data)
                    names = await differing(*events, self._host)
            except StoreError as error:
                _LOG.warning("used key not looked into error=%s", error)
        noun = new.type.partition(".")[0]
        return f"{noun} (differs in: {', '.join(names)})" if names else "request"

    async def _original(self, position: int) -> dict[str, Any] | None:
        fact = await read_one(self._host.store, position)
        if CATALOGUE[fact.type].is_record:
            return _recorded(position)
        for stored in await self._host.store.read_stream(fact.stream, position):
            entry = entry_of(stored)
            if entry.header.causation == position:
                return await self._answer(entry)
        return None

    async def _answer(self, entry: Entry) -> dict[str, Any]:
        refusal = getattr(entry.event, "refusal", None)
        if refusal is not None:
            completed = self._host.suggestions.complete(
                refusal, self._host.state, project_of(entry.event)
            )
            return refusal_answer(completed, entry.position)
        answer: dict[str, Any] = {"accepted": True, "position": entry.position}
        for name in ("job", "warning", "change", "name", "version"):
            if value := getattr(entry.event, name, ""):
                answer[name] = value
        if self._host.service.answer is not None:
            answer.update(await self._host.service.answer(entry.event, self._host))
        return answer

    async def _send_all(self, given: Sequence[tuple[Reply, dict[str, Any]]]) -> None:
        for reply, answer in given:
            await self._send(reply, answer)

    async def _send(self, reply: Reply, answer: dict[str, Any]) -> None:
        try:
            await reply(answer)
        except BusError as error:  # the asker repeats with the same key
            _LOG.info("answer not sent error=%s", error)


def _undecided(position: int) -> dict[str, Any]:
    """0 in the answer: there is no decision that it could name."""
    line = (
        f"the log's disk is full: the request is at position {position} and is decided when there is room;"
        " repeat it with the same key to hear how"
    )
    return no_room_answer(line)


def _recorded(position: int) -> dict[str, Any]:
    """The answer to a report that nobody decides on."""
    return {"accepted": True, "position": position}
