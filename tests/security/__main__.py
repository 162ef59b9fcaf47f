"""`python -m tests.security`: every attack that the tests know, and whether any succeeded.

Rule: an attack is a test marked `security`; it fails when the attack succeeds. A test that makes many
attacks says how many (`record_property("attacks", n)`), and one that depends on the machine says what
held it (`record_property("isolation", …)`). What could not be tried here, and what the
record of a job says is not held, is said aloud and does not count.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

ROOM = 100  # characters of a reason


class Tally:
    """A pytest plugin: how each attack went."""

    def __init__(self) -> None:
        self.attacks = 0
        self.succeeded: list[str] = []
        self.untried: Counter[str] = Counter()
        self.by_isolation: Counter[str] = Counter()
        self.by_file: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            self.untried[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
        elif report.when == "call" or report.outcome == "failed":
            properties = dict(report.user_properties)
            count = int(str(properties.get("attacks", 1)))
            self.attacks += count
            self.by_file[report.nodeid.partition("::")[0]] += count
            self.by_isolation[str(properties.get("isolation", ""))] += count
            if report.outcome == "failed":
                self.succeeded.append(report.nodeid)

    def told(self) -> str:
        """What was tried where, what held, what succeeded, and the line that sums it up."""
        lines = [f"{count:6} {file}" for file, count in sorted(self.by_file.items())]
        lines += [
            f"{count:6} against {isolation}"
            for isolation, count in sorted(self.by_isolation.items())
            if isolation
        ]
        lines += [
            f"NOT HELD OR NOT TRIED HERE: {count} × {why[:ROOM]}"
            for why, count in self.untried.items()
        ]
        lines += [f"SUCCEEDED: {test}" for test in self.succeeded]
        return "\n".join([*lines, f"{self.attacks} attacks, {len(self.succeeded)} succeeded"])


def main() -> int:
    """Run them all; 0 when none succeeded."""
    tally = Tally()
    code = pytest.main(["-q", "-m", "security", "-n", "0", "tests"], plugins=[tally])
    print(tally.told())
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
