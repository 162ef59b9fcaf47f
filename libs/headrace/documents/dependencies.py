"""Which jobs have to end first, and how.

Rule: a job is named by its id, its name or the beginning of its id, or by the idempotency key that it
was submitted under; which one is meant is admission's to say, when it admits. Without a state it has
to succeed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.documents.nearest import nearest
from headrace.documents.refusing import refuse
from headrace.events.asked import AFTER_STATES, Dependency

AFTER_MAX = 64

_FIELDS = ("job", "key", "state")
_KEY_LENGTH_MAX = 200
_JOB = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(/[0-9]{1,9})?")
_JOB_RULE = "is no job's id or beginning of one"


def after_of(listed: Sequence[dict[str, str]]) -> tuple[Dependency, ...]:
    """The dependencies in the order in which they are named. Raises `DocumentError`."""
    if len(listed) > AFTER_MAX:
        refuse("after", f"has at most {AFTER_MAX} jobs", value=len(listed))
    found: list[Dependency] = []
    for i, entry in enumerate(listed):
        dependency = _dependency(f"after[{i}]", entry)
        named = (dependency.job, dependency.key)
        if any(named == (before.job, before.key) for before in found):
            field = "key" if dependency.key else "job"
            refuse(f"after[{i}].{field}", "is named twice", value=dependency.key or dependency.job)
        found.append(dependency)
    return tuple(found)


def _dependency(field: str, entry: dict[str, str]) -> Dependency:
    for name in entry:
        if name not in _FIELDS:
            near = nearest(name, _FIELDS)
            instead = f"did you mean {near}?" if near else ", ".join(_FIELDS)
            refuse(f"{field}.{name}", "unknown field", instead=instead)
    job, state = entry.get("job", ""), entry.get("state", AFTER_STATES[0])
    key = entry.get("key", "")
    if "key" in entry:
        _check_key(field, key, job)
    elif not _JOB.fullmatch(job):
        refuse(f"{field}.job", _JOB_RULE if job else "must be given", value=job or None)
    if state not in AFTER_STATES:
        near = nearest(state, AFTER_STATES)
        instead = f"did you mean {near}?" if near else ", ".join(AFTER_STATES)
        rule = "is not one of the words known here"
        refuse(f"{field}.state", rule, value=state, instead=instead)
    return Dependency(job=job, state=state, key=key)


def _check_key(field: str, key: str, job: str) -> None:
    if job:
        refuse(f"{field}.key", "names a job that is named by job already", value=key, instead="one")
    if not (0 < len(key) <= _KEY_LENGTH_MAX and key.isprintable()):
        rule = f"is no idempotency key: 1 to {_KEY_LENGTH_MAX} printable characters"
        refuse(f"{field}.key", rule, value=key[:_KEY_LENGTH_MAX])
