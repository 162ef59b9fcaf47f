"""A gang that grows and shrinks because of what others need, and whose members live on.

Rule: 2 → 4 → 2 is made to happen by another project's jobs, as it does in a fleet; the members tell
their process ids (under torchrun that of their launcher) when they begin and when they end.
"""

from __future__ import annotations

import re
import time

from tests.frameworks.running import POLL_S, Examples, Outcome
from tests.frameworks.table import Case

FLEET = """
type: department
name: research
gpus: {quota: 4}
---
type: project
name: elastic
department: research
gpus: {quota: 2}
---
type: project
name: others
department: research
gpus: {quota: 2}
"""
SIZES = (2, 4, 2)
CHANGE_S_MAX = 120.0  # for a gang to have another size

_BEGINS = re.compile(r"rank (\d+) begins as pid (\d+)")
_ENDS = re.compile(r"rank (\d+) ends as pid (\d+)")


def run(examples: Examples, case: Case) -> Outcome:
    """Run the case while others come and go."""
    fleet = examples.platform.home / "elastic-fleet.yaml"
    fleet.write_text(FLEET)
    examples.platform.headrace("apply", "-f", str(fleet))
    document = examples.document(case) | {"project": "elastic"}
    document["command"] = [*document["command"], "--sizes", ",".join(map(str, SIZES))]
    other = _others(examples)
    job = examples.submit(document)
    _until(examples, job, "2 members")
    examples.platform.headrace("cancel", other)
    _until(examples, job, "4 members")
    other = _others(examples)
    outcome = examples.judged(job)
    examples.platform.headrace("cancel", other)
    if outcome.state != "ran":
        return outcome
    said = examples.output(job)
    began, ended = _BEGINS.findall(said), _ENDS.findall(said)
    stayed = {member for member in began if member[0] in "01"}
    if stayed != {member for member in ended if member[0] in "01"} or len(stayed) != SIZES[0]:
        return outcome._replace(state="failed", check=f"began {began}, ended {ended}")
    members = len(set(began))
    return outcome._replace(check=f"{outcome.check}; ranks 0 and 1 lived on, of {members}")


def _others(examples: Examples) -> str:
    """A job of the other project, on two nodes, once it runs."""
    document = {"name": "other", "project": "others", "command": ["sleep", "3600"], "nodes": 2}
    job = examples.submit(document | {"resources": {"gpus": 1}})
    deadline_s = time.monotonic() + CHANGE_S_MAX
    while (row := examples.platform.client().job(job).job).state != "running":
        _check(deadline_s, f"the other project's job is {row.state}: {row.why}")
    return job


def _until(examples: Examples, job: str, said: str) -> None:
    deadline_s = time.monotonic() + CHANGE_S_MAX
    while said not in (output := examples.output(job)):
        row = examples.platform.client().job(job).job
        _check(deadline_s, f"never had {said}, is {row.state}: {row.why}; said {output[-200:]!r}")


def _check(deadline_s: float, what: str) -> None:
    if time.monotonic() > deadline_s:
        raise TimeoutError(what)
    time.sleep(POLL_S)
