"""Sends what the journal holds, and goes on sending it until the log has it.

Rule: nothing is waited for. A batch goes out as soon as there is something new; whatever is not
known to be recorded goes out again every `REPEAT_S`.
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
LINGER_S = 0.003  # a start waits this long for its end, so that a short job is one message
REQUESTS_MAX = 8  # batches on their way at once
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
        self._wait_s = 0.0
        self._asking: set[asyncio.Task[None]] = set()

    def wake(self, *, linger: bool) -> None:
        """The journal has something new; with `linger` there may be more in a moment."""
        if not self._due.is_set():
            self._wait_s = LINGER_S
            self._due.set()
        if not linger:
            self._wait_s = 0.0

    async def run(self) -> None:
        """Send for ever."""
        loop = asyncio.get_running_loop()
        repeat_at_s = loop.time() + REPEAT_S
        while True:
            await wait_until(self._due, repeat_at_s - loop.time())
            if self._due.is_set() and self._wait_s:
                await asyncio.sleep(self._wait_s)
            self._due.clear()
            if loop.time() >= repeat_at_s:
                if self._journal.recorded_through == self._recorded_then:
                    self._sent = 0  # no answer in all this time
                self._recorded_then = self._journal.recorded_through
                repeat_at_s = loop.time() + REPEAT_S
            await self._send_all()

    def moved(
        self, key: AttemptKey, assignment: Assignment | None, pause: Paused, at_us: int
    ) -> None:
        """Report what came of a wish to leave the devices or to come back."""
        self._journal.add(moved_report_of(key, assignment, pause, at_us))
        self.wake(linger=False)

    def begin_anew(self) -> None:
        """The journal has other numbers from here on."""
        self._sent = self._recorded_then = 0
        self.wake(linger=False)

    async def stop(self) -> None:
        """Leave unanswered what is not answered."""
        await end_tasks(list(self._asking))

    async def _send_all(self) -> None:
        while self._bus.connected and (batch := self._journal.unrecorded(after=self._sent)):
            if len(self._asking) >= REQUESTS_MAX:
                await asyncio.wait(self._asking, return_when=asyncio.FIRST_COMPLETED)
            self._sent = batch[-1].sequence
            header = self._journal.header
            reports = Reports(
                node=self._node, boot=header.boot, incarnation=header.incarnation, reports=batch
            )
            task = asyncio.create_task(self._ask(_ENCODER.encode(reports)))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

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
