"""`python -m tests.agent_faults`: every fault of the table, and whether anything was lost by it.

Rule: what is counted is read from what is left: an attempt whose end nobody knows is lost, one that
ran beside its successor is doubled, a process with an attempt's mark that outlives its test leaked.
A fault that could not be tried here is said aloud and does not count.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.agent_faults.table import FAULTS, Fault

from headrace.node_agent import folders
from headrace.node_agent.supervision import tree
from headrace.node_agent.supervision.protocol import ATTEMPTS, MARKER
from headrace.verification import check_journal

OUTCOMES = ("skipped", "passed", "failed")  # a test is the last of these that a part of it is


class Tally:
    """A pytest plugin: what each test left behind, and how each fault went."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.doubled: list[str] = []
        self.leaked: list[str] = []
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}  # why a test was skipped

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Function) -> Generator[None, None, None]:
        folder = item.funcargs.get("tmp_path")
        yield
        if isinstance(folder, Path):
            self.lost += _without_end(folder)
            self.doubled += _doubled(folder)
            self.leaked += _left_by(folder)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.partition("[")[0]
        if report.outcome != "passed" or report.when == "call":
            found = (self.outcomes.get(test, report.outcome), report.outcome)
            self.outcomes[test] = max(found, key=OUTCOMES.index)
            if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
                self.reasons[test] = str(report.longrepr[2]).removeprefix("Skipped: ")

    def told(self) -> str:
        """The table with outcomes, what was found, and the line that sums it up."""
        lines = [f"{f.name:4} {self.outcome_of(f):8} {f.what}" for f in FAULTS]
        untried = [fault for fault in FAULTS if self.outcome_of(fault) == "skipped"]
        lines += [f"NOT TRIED HERE: {f.name}: {self.reasons.get(f.test, '')}" for f in untried]
        for name in ("lost", "doubled", "leaked"):
            lines += [f"{name}: {what}" for what in getattr(self, name)]
        survived = sum(self.outcome_of(fault) == "passed" for fault in FAULTS)
        counts = f"{len(self.lost)} lost, {len(self.doubled)} doubled, {len(self.leaked)} leaked"
        return "\n".join([*lines, f"{survived} faults, {counts}"])

    def outcome_of(self, fault: Fault) -> str:
        """How it went, `not run` when pytest never came to it."""
        return self.outcomes.get(fault.test, "not run")

    @property
    def is_whole(self) -> bool:
        """Whether every fault was tried that can be tried here, and nothing came of it."""
        tried = {self.outcome_of(fault) for fault in FAULTS} <= {"passed", "skipped"}
        return tried and not (self.lost or self.doubled or self.leaked)


def _without_end(folder: Path) -> list[str]:
    nodes = {attempts.parent for attempts in folder.rglob(ATTEMPTS)}
    return [
        str(attempt)
        for node in sorted(nodes)
        for _, attempt in folders.keys_in(node)
        if folders.read_intent(attempt) is not None and folders.read_exit(attempt) is None
    ]


def _doubled(folder: Path) -> list[str]:
    journal = folder / "attempts.journal"
    if not journal.exists():
        return []
    lines = [line.split() for line in journal.read_text().splitlines()]
    attempts = [" ".join([*words[:-1], "-"]) for words in lines]  # these tests share a device
    return [str(violation) for violation in check_journal(attempts)]


def _left_by(folder: Path) -> list[str]:
    found = []
    for pid in tree.processes():
        with contextlib.suppress(OSError):
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            if MARKER.encode() in environ and bytes(folder) in environ:
                found.append(f"pid {pid}: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}")
    return found


def main() -> int:
    """Run them all; 0 when every fault that can be tried here passed and nothing was lost, doubled or leaked."""
    tally = Tally()
    tests = list(dict.fromkeys(fault.test for fault in FAULTS))
    code = pytest.main(["-q", "-m", "agent_faults or not agent_faults", *tests], plugins=[tally])
    print(tally.told())
    return int(code) or int(not tally.is_whole)


if __name__ == "__main__":
    sys.exit(main())
