"""Facts on their way into the log, and who waits for them.

Rule: a fact is encoded once; it leaves this list only when it was seen in the log, so that an append
whose outcome is unknown is settled by reading, never by guessing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headrace.events import Fact, Header, encode, job_of, project_of, stream_of, tag_of
from headrace.store.interface import APPEND_EVENTS_MAX, Appended, NewEvent, Stored

PENDING_FACTS_MAX = 20_000  # facts waiting for an append; requests beyond are asked to come again
REQUESTS_MAX = APPEND_EVENTS_MAX  # of those, requests: more wait before they become facts

Reply = Callable[[dict[str, Any]], Awaitable[None]]


class PendingFact:
    """One fact, encoded, with the future of its position and, for a request, its reply."""

    __slots__ = ("event", "position", "reply")

    def __init__(self, event: NewEvent, reply: Reply | None) -> None:
        self.event = event
        self.reply = reply
        self.position: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def settle(self, position: int) -> None:
        """The fact is in the log."""
        if not self.position.done():
            self.position.set_result(position)


class PendingFacts:
    """The queue between a service's shell and its next append."""

    def __init__(self) -> None:
        self._facts: deque[PendingFact] = deque()
        self._requests = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def full(self) -> bool:
        """Whether requests should be asked to come again."""
        return len(self._facts) >= PENDING_FACTS_MAX

    async def room(self) -> None:
        """Return once one more request may become a fact: those that did are soon in the log."""
        while self._requests >= REQUESTS_MAX:
            self._has_room.clear()
            await self._has_room.wait()

    def add(self, event: NewEvent, reply: Reply | None = None) -> PendingFact:
        """Queue one encoded fact."""
        fact = PendingFact(event, reply)
        self._facts.append(fact)
        self._requests += reply is not None
        return fact

    def batch(self, room: int = APPEND_EVENTS_MAX) -> list[PendingFact]:
        """The facts that go into the next append; they stay queued until settled."""
        return [self._facts[i] for i in range(min(room, len(self._facts)))]

    def settle(self, appended: Appended, batch: Sequence[PendingFact]) -> None:
        """Take the appended ones and the repeated ones off the queue. `batch` came first in the
        append, in order.
        """
        for stored, index in zip(appended.events, appended.indexes, strict=True):
            if index < len(batch):
                batch[index].settle(stored.position)
        for duplicate in appended.duplicates:
            batch[duplicate.index].settle(duplicate.position)
        for fact in batch:
            self._facts.popleft()
            self._left(fact)

    def found(self, stored: Stored) -> PendingFact | None:
        """Take off the fact that is this event of the log, if it is one of those waiting: its
        append had succeeded although nobody heard so.
        """
        for fact in self._facts:
            event = fact.event
            if event.data == stored.data and event.header == stored.header:
                self._facts.remove(fact)
                self._left(fact)
                fact.settle(stored.position)
                return fact
        return None

    def take_requests(self) -> list[PendingFact]:
        """Take off the facts whose askers wait for an answer: they are known not to be in the log."""
        requests = [fact for fact in self._facts if fact.reply is not None]
        self._facts = deque(fact for fact in self._facts if fact.reply is None)
        for fact in requests:
            fact.position.cancel()
            self._left(fact)
        return requests

    def cancel(self) -> None:
        """Leadership ended: whoever waits is told by cancellation."""
        for fact in self._facts:
            fact.position.cancel()
            self._left(fact)
        self._facts.clear()

    def _left(self, fact: PendingFact) -> None:
        self._requests -= fact.reply is not None
        if self._requests < REQUESTS_MAX:
            self._has_room.set()


def encode_fact(
    fact: Fact,
    *,
    actor: str,
    traceparent: str,
    request_source: str = "",
    request_key: str = "",
    request_hash: bytes = b"",
) -> NewEvent:
    """The fact as the log takes it."""
    project = project_of(fact)
    header = Header(
        actor=actor,
        project=project,
        correlation=job_of(fact),
        traceparent=traceparent,
        request_source=request_source,
        request_key=request_key,
    )
    return NewEvent(
        stream=stream_of(fact),
        type=tag_of(fact),
        project=project,
        header=encode(header),
        data=encode(fact),
        request_source=request_source,
        request_key=request_key,
        request_hash=request_hash,
    )
