"""Which database role may do what: one login per service, one for reading all, one for operators.

Rule: a role appends through `headrace.append` only, and only the event types its service owns.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.events import EVENTS, tag_of
from headrace.events.platform import LOG_OWNER

ANY_OWNER = "*"  # an event type that every deciding service may append
DECIDING = tuple(sorted({event.owner for event in EVENTS} - {ANY_OWNER, LOG_OWNER}))
READING = ("gateway", "operator")
PREFIX = "headrace_"  # of the names here; those of a log may begin otherwise
ROLES = tuple(f"{PREFIX}{name}" for name in (*DECIDING, *READING))

VAULT_WRITER = "headrace_admission"
VAULT_READERS = (VAULT_WRITER, "headrace_placement")

_EVERYONE = (
    "USAGE ON SCHEMA headrace",
    "SELECT ON headrace.event, headrace.log_head, headrace.schema_version",
    "EXECUTE ON FUNCTION headrace.now_us, headrace.wall_us",
)
_DECIDING = (
    "SELECT ON headrace.snapshot",
    "EXECUTE ON FUNCTION headrace.append, headrace.lead, headrace.renew, headrace.keep_time",
    "EXECUTE ON FUNCTION headrace.save_snapshot, headrace.log_has",
)
_MORE = {
    VAULT_WRITER: (
        "SELECT, INSERT, DELETE ON headrace.project_key",
        "SELECT, INSERT, UPDATE, DELETE ON headrace.secret",
    ),
    "headrace_placement": ("SELECT ON headrace.project_key, headrace.secret",),
    "headrace_operator": (
        "SELECT ON headrace.service_head, headrace.snapshot, headrace.guard, headrace.request",
        "SELECT ON headrace.event_role",
        "EXECUTE ON FUNCTION headrace.project_key_digests",
    ),
}


def role_of(service: str) -> str:
    """The database role of a service."""
    return f"headrace_{service}"


def named(role: str, prefix: str) -> str:
    """What the role is called in a log whose roles' names begin with `prefix`."""
    return f"{prefix}{role.removeprefix(PREFIX)}"


def event_roles() -> list[tuple[str, str]]:
    """Each event type with each role that may append it."""
    return [
        (tag_of(event), role_of(service))
        for event in EVENTS
        if event.owner != LOG_OWNER
        for service in (DECIDING if event.owner == ANY_OWNER else (event.owner,))
    ]


def privileges(role: str) -> Iterator[str]:
    """What is granted to a role, as the middle part of GRANT statements."""
    yield from _EVERYONE
    if role.removeprefix("headrace_") in DECIDING:
        yield from _DECIDING
    yield from _MORE.get(role, ())
