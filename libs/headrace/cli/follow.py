"""Follows one job to its end: where it was placed, what it writes, how it ended.

Rule: events and output are followed separately; a line about an attempt's end is printed after all
that it wrote, or after `OUTPUT_S_MAX` when its node does not answer.
"""

from __future__ import annotations

import sys
import threading
from typing import Literal

from headrace.cli.exits import (
    CANCELLED,
    INTERRUPTED,
    OWN_FAILURE,
    REFUSED,
    TIMED_OUT,
    UNREACHABLE,
    printable,
    report,
)
from headrace.cli.output import gpus, seconds, terminal_safe
from headrace.cli.waiting import Waiting
from headrace.client.client import Client
from headrace.client.errors import ClientError, Unreachable
from headrace.client.model import (
    NODE_LOST,
    AttemptRow,
    Description,
    Happening,
    LogPiece,
    WorkerRow,
    why_ended,
)

OUTPUT_S_MAX = 10.0

Shows = Literal["all", "end", "output", "nothing"]
"""What is printed of a job: all that happens to it and what it writes, its end, what it writes just
as it wrote it (and its end on stderr, if it did not succeed), or nothing.
"""


def follow_job(client: Client, job: str, *, shows: Shows = "all") -> int:
    """Print what happens to the job until it has ended; its exit code.

    Ctrl-C and a lost gateway leave it running, which is said.
    """
    following = _Following(client, job, shows)
    try:
        for event in client.events(job=job, follow=True, on_break=say_break):
            code = following.take(event)
            if code is not None:
                return code
    except KeyboardInterrupt:
        is_waiting = following.is_waiting
        following.close()
        return left_running(job, is_waiting=is_waiting)
    except Unreachable as error:
        return lost(job, error)
    finally:
        following.close()
    return OWN_FAILURE  # the stream of events ends only with the job's end


def left_running(job: str, *, is_waiting: bool = False) -> int:
    """Say that Ctrl-C ended only the looking; the exit code."""
    print(file=sys.stderr)  # the line that ^C stands on
    if is_waiting:
        line = f"{job} waits on, and will run; headrace why {job} says what for"
        return report(f"{line}, headrace cancel {job} ends it", INTERRUPTED)
    return report(f"{job} runs on; headrace cancel {job} ends it", INTERRUPTED)


def lost(job: str, error: Unreachable) -> int:
    """Say that nothing more can be heard of the job, and how to find it again; the exit code."""
    line = f"headrace: {error}; {job} may run on: headrace attach {job} finds it again"
    return report(line, UNREACHABLE)


def say_break(error: Unreachable | None) -> None:
    """Say that the connection is lost and tried again; with None that it is back."""
    line = (
        "connected again" if error is None else f"the connection is lost and tried again: {error}"
    )
    print(printable(f"headrace: {line}"), file=sys.stderr, flush=True)


class _Following:
    """What was printed of one job so far."""

    def __init__(self, client: Client, job: str, shows: Shows) -> None:
        self._client, self._job, self._shows = client, job, shows
        self._output: threading.Thread | None = None
        self._shown = 0  # the attempt whose placement was printed
        self._waiting = Waiting(client, job, is_said=shows == "all")
        self._waiting.begin()

    @property
    def is_waiting(self) -> bool:
        """Whether the job has no places now."""
        return not self._waiting.is_over

    def close(self) -> None:
        """Print nothing more."""
        self._waiting.end()

    def take(self, event: Happening) -> int | None:
        """Print what the event says; the exit code when it is the last one."""
        data, kind = event.data, event.type
        if data.get("job") != self._job:
            self._task(event)
        elif kind == "job.refused.v1":
            return report(_refusal(data.get("refusal", {})), REFUSED)
        elif kind == "job.held.v1":
            self._say(f"held: {data.get('reason', '')}")
        elif kind == "job.started.v1":
            self._placed(int(data["attempt"]), int(data.get("waited_us", 0)))
        elif kind in ("gang.paused.v1", "gang.resumed.v1"):
            self._say(_PAUSES[kind])
        elif kind == "job.paused.v1":
            lost = f"; lost: {data['lost']}" if data.get("lost") else ""
            self._say(f"paused ({data.get('way', '')}){lost}")
        elif kind == "gang.evicted.v1":
            gainer = f" for {data['gainer']}" if data.get("gainer") else ""
            if data.get("reason") not in ("worker-failed", "finished"):
                self._say(f"stopping: {data.get('reason', '')}{gainer}")
        elif kind == "gang.grown.v1":
            nodes = " ".join(str(worker.get("node", "")) for worker in data.get("workers", ()))
            self._say(f"grows: {nodes}")
        elif kind == "gang.shrunk.v1" and data.get("reason") != "finished":
            ranks = " ".join(str(rank) for rank in data.get("ranks", ()))
            self._say(f"shrinks: {data.get('reason', '')}, ranks {ranks}")
        elif kind == "gang.released.v1" and data.get("again"):
            self._await_output()
            reason = f" after {data['reason']}" if data.get("reason") else ""
            rest = ", when it has rested" if data.get("rests_until_us") else ""
            self._say(f"waits again{reason}, for another attempt{rest}")
            self._waiting.begin()
        elif kind == "job.finished.v1":
            return self._finished(event)
        return None

    def _placed(self, attempt: int, waited_us: int) -> None:
        self._waiting.end()
        if self._shows not in ("all", "output"):
            return
        self._shown = attempt
        found = self._client.job(self._job)
        row = next((row for row in found.attempts if row.attempt == attempt), None)
        if row is None:
            return
        self._say(f"{placement(row)}{_unenforced(found, row)}  after {seconds(waited_us)}")
        self._output = threading.Thread(target=self._print, args=(found, row), daemon=True)
        self._output.start()

    def _task(self, event: Happening) -> None:
        """One line per task of a group that has ended."""
        if event.type == "job.started.v1":
            self._waiting.end()
        if event.type == "job.finished.v1" and self._shows == "all":
            self._waiting.say(printable(f"{event.data['job']}  {ending(event)}"))

    def _finished(self, event: Happening) -> int:
        attempt = int(event.data.get("attempt", 0))
        if attempt > self._shown:  # it ended before every worker of it ran
            self._placed(attempt, int(event.data.get("waited_us", 0)))
        self._await_output()
        self._waiting.end()
        end = printable(f"{self._job}  {ending(event)}")
        if self._shows in ("all", "end"):
            print(end, flush=True)
        elif self._shows == "output" and event.data["outcome"] != "succeeded":
            print(end, file=sys.stderr, flush=True)
        return exit_code(event)

    def _await_output(self) -> None:
        if self._output is not None:
            self._output.join(OUTPUT_S_MAX)
            self._output = None

    def _print(self, found: Description, attempt: AttemptRow) -> None:
        client = self._client.copy()
        lines = output_lines(self._job if self._shows == "all" else "", found, attempt)
        try:
            for piece in client.logs(self._job, attempt=attempt.attempt, follow=True):
                lines.add(piece)
        except ClientError as error:
            self._say(f"output: {error}")
        finally:
            lines.close()
            client.close()

    def _say(self, text: str) -> None:
        if self._shows == "all":
            self._waiting.say(printable(f"{self._job}  {text}"))


class OutputLines:
    """Prints the output of processes line by line, each behind `label` and where it comes from:
    its role and its rank when there are `ranks`, its process when there are `processes`.
    """

    def __init__(self, label: str, *, ranks: bool = False, processes: bool = False) -> None:
        self._label, self._ranks, self._processes = label, ranks, processes
        self._open: dict[tuple[int, int, int], tuple[str, str]] = {}

    def add(self, piece: LogPiece) -> None:
        """Print the lines that are complete now."""
        where = (piece.attempt, piece.rank, piece.process)
        prefix = self._prefix(piece)
        _, begun = self._open.pop(where, ("", ""))
        *lines, rest = (begun + piece.text).split("\n")
        if piece.ended and rest:
            lines.append(rest)
        elif rest:
            self._open[where] = (prefix, rest)
        if piece.missing:
            lines.append(f"(no output: {piece.missing})")
        for line in lines:
            print(prefix + terminal_safe(line.removesuffix("\r")), flush=True)

    def close(self) -> None:
        """Print the lines that were begun."""
        for prefix, line in self._open.values():
            print(prefix + terminal_safe(line), flush=True)
        self._open.clear()

    def _prefix(self, piece: LogPiece) -> str:
        where = f"{piece.role} {piece.rank}".lstrip() if self._ranks else ""
        where += f".{piece.process}" if self._processes else ""
        label = " ".join(part for part in (printable(self._label), where) if part)
        return f"{label} | " if label else ""


def output_lines(label: str, found: Description, attempt: AttemptRow) -> OutputLines:
    """The printer that fits the attempt's workers."""
    gang = found.spec.get("gang", {})
    per_gpu = any(each.get("per_gpu_processes") for each in (gang, *gang.get("roles", ())))
    return OutputLines(label, ranks=len(attempt.workers) > 1, processes=per_gpu)


def placement(attempt: AttemptRow) -> str:
    """`placed on n1, GPUs 0 1 (whole, enforcement: none, simulated)`."""
    nodes = " ".join(dict.fromkeys(worker.node for worker in attempt.workers))
    held = [worker for worker in attempt.workers if worker.gpus]
    if not held:
        return f"placed on {nodes}, no GPU"
    indexes = " · ".join(" ".join(map(str, worker.gpus)) for worker in held)
    word = "GPU" if sum(len(worker.gpus) for worker in held) == 1 else "GPUs"
    enforcement = next((worker.enforcement for worker in held if worker.enforcement), "none")
    notes = [_share(held[0]), f"enforcement: {enforcement}"]
    if any(worker.simulated for worker in held):
        notes.append("simulated")
    return f"placed on {nodes}, {word} {indexes} ({', '.join(notes)})"


def _unenforced(found: Description, attempt: AttemptRow) -> str:
    """Where the job asks for memory and nothing on its node holds it to that."""
    gang = found.spec.get("gang", {})
    asked = any(each.get("memory_bytes") for each in (gang, *gang.get("roles", ())))
    levels = [worker.isolation for worker in attempt.workers if worker.isolation]
    is_kept = any(level.startswith(("cgroup", "docker")) for level in levels)
    return ", memory: not enforced here" if asked and levels and not is_kept else ""


def ending(event: Happening) -> str:
    """`succeeded  exit 0  ran 0.1 s  waited 0.02 s`, with the reason when there is one."""
    data = event.data
    parts = [str(data["outcome"])]
    if data["outcome"] != "cancelled" and data.get("reason") != NODE_LOST:  # which nobody saw
        parts.append(f"exit {data.get('exit_code', 0)}")
    parts.append(f"ran {seconds(int(data.get('ran_us', 0)))}")
    parts.append(f"waited {seconds(int(data.get('waited_us', 0)))}")
    if data["outcome"] == "failed" and data.get("node"):
        parts.append(f"rank {data.get('rank', 0)} on {data['node']}")
    reason = why_ended(str(data.get("reason", "")), str(data.get("message", "")))
    if reason and data["outcome"] != "succeeded":
        parts.append(f"({reason})")
    return "  ".join(parts)


def exit_code(event: Happening) -> int:
    """The job's own code; 121 and 124 when it was cancelled or took too long; 125 when it never
    had one.
    """
    data = event.data
    if data["outcome"] == "cancelled":
        return CANCELLED
    if data.get("reason") == "timeout":
        return TIMED_OUT
    code = int(data.get("exit_code", 0))
    return code if code or data["outcome"] == "succeeded" else OWN_FAILURE


def _refusal(refusal: dict[str, str]) -> str:
    value = f" = {refusal['value']}" if refusal.get("value") else ""
    instead = f"; {refusal['instead']}" if refusal.get("instead") else ""
    return f"refused: {refusal.get('field', '')}{value} — {refusal.get('rule', '')}{instead}"


def _share(worker: WorkerRow) -> str:
    return "whole" if all(milli == 1000 for milli in worker.milli) else gpus(worker.milli[0])


_PAUSES = {
    "gang.paused.v1": "has left its GPUs; what it did is kept in its nodes' memory",
    "gang.resumed.v1": "goes on where it was",
}
