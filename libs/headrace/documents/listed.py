"""`members` of a department's or project's document: who has which role in it.

Rule: one entry names one user, group or service and one role that fits there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from headrace.access.names import MEMBER_KINDS, member_refusal, role_refusal
from headrace.documents.nearest import nearest
from headrace.documents.refusing import refuse
from headrace.events import Refusal
from headrace.events.queues import Listed

MEMBERS_MAX = 1_000  # of one document; groups have as many people as they like


def listed(entries: Sequence[Mapping[str, str]], kind: str) -> tuple[Listed, ...]:
    """The members of a `kind` (project or department). Raises `DocumentError`."""
    if len(entries) > MEMBERS_MAX:
        refuse("members", f"has at most {MEMBERS_MAX}", instead="name a group")
    found: dict[Listed, None] = {}
    for index, entry in enumerate(entries):
        found[_member(f"members[{index}]", entry, kind)] = None
    return tuple(found)


def _member(field: str, entry: Mapping[str, str], kind: str) -> Listed:
    known = (*MEMBER_KINDS, "role")
    for name in entry:
        if name not in known:
            near = nearest(name[:64], known)
            instead = f"did you mean {near}?" if near else ", ".join(known)
            refuse(f"{field}.{name[:64]}", "unknown field", instead=instead)
    named = [name for name in MEMBER_KINDS if name in entry]
    if len(named) != 1 or "role" not in entry:
        refuse(
            field, "names one user, group or service, and a role", instead="{user: ada, role: …}"
        )
    member = f"{named[0]}:{entry[named[0]]}"
    for refusal in (member_refusal(member), role_refusal(entry["role"], kind)):
        if refusal is not None:
            _raise(field, refusal)
    return Listed(member=member, role=entry["role"])


def _raise(field: str, refusal: Refusal) -> NoReturn:
    refuse(f"{field}.{refusal.field}", refusal.rule, value=refusal.value, instead=refusal.instead)
