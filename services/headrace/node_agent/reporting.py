"""Sends what the journal holds, and goes on sending it until the log has it.

Rule: what is new goes out at once, unless `REQUESTS_MAX` batches are on their way: then it is the next
one. Whatever is not known to be recorded goes out again every `REPEAT_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from headrace.bus import subjects
from headrace.bus.agents import Assignment, Report, Reports
from headrace.bus.interface import Bus, BusError
from headrace.node_agent.journal import Journal
from headrace.node_agent.machine import AttemptKey, End, Paused, Seen
from headrace.node_agent.tasks import end_tasks, wait_until
from headrace.telemetry import Phase, record_phases

REPEAT_S = 2.0  # after which a report that is not recorded is sent again
REQUESTS_MAX = 2  # batches on their way at once: an end does not wait for the answer to a start
ANSWER_S = 5.0

_ENCODER = msgspec.json.Encoder()


class Reporter:
    """`answered` gets the bytes of each answer: the node's signed desired state, or nothing."""

    def __init__(
        self, bus: Bus, journal: Journal, node: str, answered: Callable[[bytes], None]
    ) -> None:
        self._bus, self._journal, self._node, self._answered = bus, journal, node, answered
        self._sent = 0
        self._recorded_then = 0
        self._due = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()  # asked for longer than `REPEAT_S`

    def wake(self) -> None:
        """The journal has something new."""
        self._due.set()

    async def run(self) -> None:
        """Send for ever."""
        loop = asyncio.get_running_loop()
        repeat_at_s = loop.time() + REPEAT_S
        while True:
            await wait_until(self._due, repeat_at_s - loop.time())
            self._due.clear()
            if loop.time() >= repeat_at_s:
                if self._journal.recorded_through == self._recorded_then:
                    self._sent = 0  # no answer in all this time
                    self._late |= self._asking  # which may be answered yet
                    self._asking.clear()
                self._recorded_then = self._journal.recorded_through
                repeat_at_s = loop.time() + REPEAT_S
            self._send_all()

    def moved(
        self, key: AttemptKey, assignment: Assignment | None, pause: Paused, at_us: int
    ) -> None:
        """Report what came of a wish to leave the devices or to come back."""
        self._journal.add(moved_report_of(key, assignment, pause, at_us))
        self.wake()

    def begin_anew(self) -> None:
        """The journal has other numbers from here on."""
        self._sent = self._recorded_then = 0
        self.wake()

    async def stop(self) -> None:
        """Leave unanswered what is not answered."""
        await end_tasks([*self._asking, *self._late])

    def _send_all(self) -> None:
        while self._bus.connected and len(self._asking) < REQUESTS_MAX:
            batch = self._journal.unrecorded(after=self._sent)
            if not batch:
                return
            self._sent = batch[-1].sequence
            header = self._journal.header
            reports = Reports(
                node=self._node, boot=header.boot, incarnation=header.incarnation, reports=batch
            )
            task = asyncio.create_task(self._ask(_ENCODER.encode(reports)))
            self._asking.add(task)
            task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        """One batch fewer is on its way: what came meanwhile goes."""
        self._asking.discard(task)
        self._late.discard(task)
        self._due.set()

    async def _ask(self, data: bytes) -> None:
        subject = subjects.agent_up(self._node, "report")
        with contextlib.suppress(BusError):
            answer = await self._bus.request(subject, data, timeout_s=ANSWER_S)
            self._answered(answer.data)


def report_of(
    what: str,
    key: AttemptKey,
    assignment: Assignment | None,
    seen: Seen | None,
    *,
    at_us: int,
    end: End | None = None,
) -> Report:
    """A report that the journal has yet to number."""
    about = assignment or seen
    report = Report(
        sequence=0,
        what=what,
        job=key.job,
        attempt=key.attempt,
        rank=key.rank,
        project=about.project if about is not None else "",
        at_us=at_us,
        enforcement=seen.enforcement if seen is not None else "none",
        isolation=seen.isolation if seen is not None else "",
        traceparent=about.traceparent if about is not None else "",
    )
    if end is None:
        return report
    return msgspec.structs.replace(
        report,
        reason=end.reason,
        exit_code=end.exit_code,
        message=end.message,
        reported=end.reported,
        outputs=end.outputs,
        outputs_files=end.outputs_files,
        outputs_bytes=end.outputs_bytes,
        process=end.process,
        checkpoint=end.checkpoint,
    )


def moved_report_of(
    key: AttemptKey, assignment: Assignment | None, pause: Paused, at_us: int
) -> Report:
    """What came of a wish to leave the devices or to come back."""
    reached = {"running": "resumed"}.get(pause.phase, pause.phase)
    report = report_of(
        "pause_failed" if pause.failed else reached, key, assignment, None, at_us=at_us
    )
    return msgspec.structs.replace(
        report,
        asked_at=pause.phase_at,
        message=pause.failed,
        broken=pause.broken,
        gpu_bytes=pause.gpu_bytes,
        took_us=pause.took_us,
    )


def record_run(key: AttemptKey, about: Assignment | Seen | None, end: End) -> None:
    """The worker's life as a span of its job's trace."""
    if about is not None and end.started_at_us:
        run = Phase(f"run rank {key.rank}", end.started_at_us, end.ended_at_us)
        record_phases(key.job, key.attempt, about.traceparent, [run])
