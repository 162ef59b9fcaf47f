"""`make test-frameworks`: every framework and paradigm of the table on two nodes of two GPUs, and how
fast gangs start. Ends with the table; 1 when anything failed.

`python -m tests.frameworks VENV [NAME…]` runs those whose names contain one of the words.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.frameworks import elastic, figures
from tests.frameworks.running import Examples, Outcome
from tests.frameworks.table import CASES, Case

from headrace.testing import started_platform

SMALL = ("--nodes", "2", "--gpus", "simulated:2xH100-80GB")
WIDE = ("--nodes", "4", "--gpus", "simulated:1xH100-80GB")
LARGE = ("--nodes", "2", "--gpus", "simulated:16xH100-80GB")


def main() -> int:
    """Run what was asked for; the exit code."""
    venv, words = Path(sys.argv[1]).absolute(), [word.lower() for word in sys.argv[2:]]
    cases = [case for case in CASES if not words or any(w in case.name.lower() for w in words)]
    outcomes: dict[Case, Outcome] = {}
    lines: list[str] = []
    for options, kind in ((SMALL, False), (WIDE, True)):
        chosen = [case for case in cases if case.is_elastic is kind]
        if chosen:
            with started_platform(*options) as platform:
                examples = Examples(platform, venv)
                outcomes |= {case: _run(examples, case) for case in chosen}
                lines += [] if words or kind else _rendezvous(examples)
    if not words:
        with started_platform(*LARGE) as platform:
            seconds = figures.started_s(platform)
            lines.append(f"32 processes on two nodes run {seconds:.2f} s after their placement")
    print("\n".join([*_table(outcomes), "", *lines]))
    failed = sum(outcome.state == "failed" for outcome in outcomes.values())
    ran = sum(outcome.state == "ran" for outcome in outcomes.values())
    print(f"{ran} ran, {failed} failed, {len(outcomes) - ran - failed} not run")
    return 1 if failed else 0


def _run(examples: Examples, case: Case) -> Outcome:
    print(f"… {case.name}", flush=True)
    if not case.is_elastic or examples.lack(case):
        return examples.run(case)
    try:
        return elastic.run(examples, case)
    except TimeoutError as error:
        return Outcome("failed", str(error))


def _rendezvous(examples: Examples) -> list[str]:
    job_s, hand_s = figures.rendezvous_s(examples)
    more = (job_s / hand_s - 1) * 100
    line = f"PyTorch's rendezvous, 2 × 2: {job_s:.2f} s as a job, {hand_s:.2f} s by hand"
    return [f"{line} ({more:+.0f} %; medians of {figures.ROUNDS})"]


def _table(outcomes: dict[Case, Outcome]) -> list[str]:
    rows = [("", "", "on", "numeric check, or why not", "ran")]
    for case, outcome in outcomes.items():
        ran = f"{outcome.ran_s:.0f} s" if outcome.ran_s else ""
        rows.append((case.name, outcome.state, outcome.where, outcome.check, ran))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


if __name__ == "__main__":
    sys.exit(main())
