"""Reads what is kept beside the events, for `headrace verify`.

Rule: one transaction that sees one moment, so that every table can be compared with the log up to the
head of that moment, although appends go on.
"""

from __future__ import annotations

from typing import Any

from headrace.store.interface import Head, Ledger
from headrace.store.ledger_rows import GuardRow, ProjectKeyRow, RequestRow, ServiceRow, SnapshotRow

LEDGER_S = 120.0  # the keys of 30 days' requests are read in one go

_HEAD = (
    "SELECT position, hash, recorded_at_us, headrace.now_us(),"
    " (SELECT coalesce(max(position), 0) FROM headrace.event) FROM headrace.log_head"
)
_SERVICES = "SELECT service, epoch, last_position FROM headrace.service_head ORDER BY service"
_GUARDS = 'SELECT key, used, "limit", delta FROM headrace.guard ORDER BY key'
_REQUESTS = (
    "SELECT project, source, key, position, recorded_at_us FROM headrace.request ORDER BY position"
)
_SNAPSHOTS = (
    "SELECT service, position, hash, decision_version, sha256(data) FROM headrace.snapshot"
    " ORDER BY service, position"
)
_PROJECT_KEYS = "SELECT project, id, digest FROM headrace.project_key_digests()"
_EVENT_ROLES = (  # by the names that they have wherever a log is
    "SELECT type, 'headrace_' || substr(role, length(role_prefix) + 1)"
    " FROM headrace.event_role, headrace.log_head"
)


async def read_ledger(connection: Any) -> Ledger:
    """The tables beside the events. Raises the driver's errors."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute(f"SET LOCAL statement_timeout = {int(LEDGER_S * 1000)}")
        head = await connection.fetchrow(_HEAD)
        rows = [
            await connection.fetch(query, timeout=LEDGER_S)
            for query in (_SERVICES, _GUARDS, _REQUESTS, _SNAPSHOTS, _EVENT_ROLES, _PROJECT_KEYS)
        ]
    position, hash_, recorded_at_us, now_us, last_event = head
    services, guards, requests, snapshots, event_roles, project_keys = rows
    return Ledger(
        head=Head(position=position, hash=hash_, now_us=now_us),
        recorded_at_us=recorded_at_us,
        last_event=last_event,
        services=tuple(
            ServiceRow(service=service, epoch=epoch, last_position=last)
            for service, epoch, last in services
        ),
        guards=tuple(
            GuardRow(key=key, used=used, limit=limit, delta=delta)
            for key, used, limit, delta in guards
        ),
        requests=tuple(
            RequestRow(project=project, source=source, key=key, position=at, recorded_at_us=at_us)
            for project, source, key, at, at_us in requests
        ),
        snapshots=tuple(
            SnapshotRow(
                service=service, position=at, hash=hash_, decision_version=version, sha256=digest
            )
            for service, at, hash_, version, digest in snapshots
        ),
        event_roles=frozenset((type_, role) for type_, role in event_roles),
        project_keys=tuple(
            ProjectKeyRow(project=project, id=key_id, sha256=digest)
            for project, key_id, digest in project_keys
        ),
    )
