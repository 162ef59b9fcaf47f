"""Which jobs have to end first, and how.

Rule: a job is named by its id or the beginning of it; which one is meant is admission's to say, when
it admits. Without a state it has to succeed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.documents.nearest import nearest
from headrace.documents.refusing import refuse
from headrace.events.asked import AFTER_STATES, Dependency

AFTER_MAX = 64

_FIELDS = ("job", "state")
_JOB = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(/[0-9]{1,9})?")
_JOB_RULE = "is no job's id or beginning of one"


def after_of(listed: Sequence[dict[str, str]]) -> tuple[Dependency, ...]:
    """The dependencies in the order in which they are named. Raises `DocumentError`."""
    if len(listed) > AFTER_MAX:
        refuse("after", f"has at most {AFTER_MAX} jobs", value=len(listed))
    found: list[Dependency] = []
    for i, entry in enumerate(listed):
        dependency = _dependency(f"after[{i}]", entry)
        if any(dependency.job == before.job for before in found):
            refuse(f"after[{i}].job", "is named twice", value=dependency.job)
        found.append(dependency)
    return tuple(found)


def _dependency(field: str, entry: dict[str, str]) -> Dependency:
    for name in entry:
        if name not in _FIELDS:
            near = nearest(name, _FIELDS)
            instead = f"did you mean {near}?" if near else ", ".join(_FIELDS)
            refuse(f"{field}.{name}", "unknown field", instead=instead)
    job, state = entry.get("job", ""), entry.get("state", AFTER_STATES[0])
    if not _JOB.fullmatch(job):
        refuse(f"{field}.job", _JOB_RULE if job else "must be given", value=job or None)
    if state not in AFTER_STATES:
        near = nearest(state, AFTER_STATES)
        instead = f"did you mean {near}?" if near else ", ".join(AFTER_STATES)
        rule = "is not one of the words known here"
        refuse(f"{field}.state", rule, value=state, instead=instead)
    return Dependency(job=job, state=state)
