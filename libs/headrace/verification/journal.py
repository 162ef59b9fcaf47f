"""I11: what really ran, as told by a journal that workers keep outside Headrace.

Lines: `start|pause|resume|end <job> <attempt> <rank> <ns> <gpus>`, where `ns` is a clock of the machine and
`gpus` is `-` or a comma-separated list of `<uuid>[:<milli>]` (a whole device without `:milli`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from headrace.events.guards import DEVICE_MILLI
from headrace.verification.violation import Violation


class Line(NamedTuple):
    """One line, understood."""

    at_ns: int
    what: str
    job: str
    attempt: int
    rank: int
    gpus: tuple[tuple[str, int], ...]

    @property
    def worker(self) -> str:
        """For messages and as a key."""
        return f"{self.job} attempt {self.attempt} rank {self.rank}"


def check_journal(lines: Iterable[str]) -> list[Violation]:
    """Nothing ran twice, attempts of a job never overlapped, and no device had more than a whole.

    One that is paused holds nothing until it is resumed. A worker that was killed writes no end: it counts as gone when its job's next attempt starts,
    and as holding its devices for that moment only.
    """
    parsed = sorted(_parse(line) for line in lines if line.strip())
    ended = {line.worker for line in parsed if line.what == "end"}
    found: list[str] = []
    started: Counter[str] = Counter()
    running: dict[str, Line] = {}
    for line in parsed:
        if line.what != "start":
            running.pop(line.worker, None)
        if line.what in ("end", "pause"):
            continue
        started[line.worker] += line.what == "start"
        found.extend(_against(line, running, started))
        if line.worker in ended:
            running[line.worker] = line
    return [Violation(invariant="I11", position=0, what=what) for what in found]


def _against(line: Line, running: dict[str, Line], started: Counter[str]) -> list[str]:
    found = []
    if started[line.worker] > 1:
        found.append(f"{line.worker} was started {started[line.worker]} times")
    found.extend(
        f"{line.worker} started while {other.worker} ran"
        for other in running.values()
        if other.job == line.job and other.attempt != line.attempt
    )
    held: Counter[str] = Counter()
    for worker in (*running.values(), line):
        held.update(dict(worker.gpus))
    for device, _ in line.gpus:
        if held[device] > DEVICE_MILLI:
            found.append(
                f"{device} was used by {held[device]} milli when {line.worker} {_BEGAN[line.what]}"
            )
    return found


_BEGAN = {"start": "started", "resume": "was resumed"}


def _parse(line: str) -> Line:
    what, job, attempt, rank, at_ns, gpus = line.split()
    devices = [gpu.partition(":") for gpu in gpus.split(",")] if gpus != "-" else []
    shares = tuple((device, int(milli or DEVICE_MILLI)) for device, _, milli in devices)
    return Line(int(at_ns), what, job, int(attempt), int(rank), shares)
