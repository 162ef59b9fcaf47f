"""Reports go out at once while few are on their way; what comes meanwhile is the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from tests.node_agent.placement_twin import NODE, until

from headrace.bus import subjects
from headrace.bus.agents import Report, Reports
from headrace.bus.interface import Message
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.node_agent import reporting
from headrace.node_agent.journal import Header, Journal
from headrace.node_agent.reporting import REQUESTS_MAX, Reporter


class Sending:
    """A reporter, and whoever hears its batches and answers when told to."""

    def __init__(self) -> None:
        broker = MemoryBroker()
        self.bus, self.placement = MemoryBus(broker, "agent"), MemoryBus(broker, "placement")
        self.journal = Journal(Header(incarnation="i1", boot="b1"))
        self.answered: list[bytes] = []
        self.reporter = Reporter(self.bus, self.journal, NODE, self.answered.append)
        self.batches: list[list[int]] = []
        self.replies: list[str] = []
        self.made = 0

    async def open(self) -> None:
        await self.placement.subscribe(subjects.agents_up("report"), self._heard)

    async def _heard(self, message: Message) -> None:
        reports = msgspec.json.decode(message.data, type=Reports).reports
        self.batches.append([report.sequence for report in reports])
        self.replies.append(message.reply)

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            self.made += 1
            job = f"job-{self.made}"
            self.journal.add(
                Report(sequence=0, what="started", job=job, attempt=1, rank=0, project="p", at_us=5)
            )
            self.reporter.wake()

    async def answer(self, batch: int) -> None:
        self.journal.recorded(self.batches[batch][-1])
        await self.placement.publish(self.replies[batch], b"")


@pytest.fixture
async def sending() -> AsyncIterator[Sending]:
    sending = Sending()
    await sending.open()
    running = asyncio.create_task(sending.reporter.run())
    yield sending
    running.cancel()
    await asyncio.wait([running])
    await sending.reporter.stop()


def batches(sending: Sending, count: int) -> Callable[[], bool]:
    return lambda: len(sending.batches) == count


async def test_what_comes_while_others_are_on_their_way_is_one_batch(sending: Sending) -> None:
    for number in range(REQUESTS_MAX):
        sending.add()
        await until(batches(sending, number + 1))
    for _ in range(3):
        sending.add()
        for _ in range(20):  # it has run, and whoever hears it too
            await asyncio.sleep(0)
    assert sending.batches == [[1], [2]]
    await sending.answer(0)
    await until(batches(sending, 3))
    assert sending.batches[-1] == [3, 4, 5]


async def test_whoever_never_answers_is_told_again(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "REPEAT_S", 0.01)  # of the time after the first
    for number in range(REQUESTS_MAX):
        sending.add()
        await until(batches(sending, number + 1))
    sending.add()
    await until(lambda: [1, 2, 3] in sending.batches, "all that is not recorded, together")
    await sending.answer(0)  # late, and heard all the same
    await until(lambda: sending.answered, "an answer")
