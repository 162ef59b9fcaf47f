"""Events of the log as people and pipelines see them.

Rule: sealed bytes are left out; everything else is shown as it is in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.client.model import Happening
from headrace.events import decode_header
from headrace.store.interface import Forked, Stored

_LEFT_OUT = ("type", "launch", "launch_key")

Filter = Callable[[Stored], bool]


def happening(event: Stored) -> Happening:
    """One event, decoded. Raises `Forked` when it is recorded for another project than it is about:
    whoever was to see it was judged by that column.
    """
    header = decode_header(event.header)
    data: dict[str, Any] = msgspec.json.decode(event.data)
    if data.get("project", "") != event.project:
        raise Forked(f"position {event.position} is not about project {event.project!r}")
    for name in _LEFT_OUT:
        data.pop(name, None)
    return Happening(
        position=event.position,
        at_us=event.recorded_at_us,
        type=event.type,
        stream=event.stream,
        project=event.project,
        job=header.correlation,
        actor=header.actor,
        causation=header.causation,
        trace=trace_of(header.traceparent),
        data=data,
    )


def trace_of(traceparent: str) -> str:
    """The trace's id, 32 hex; empty when there is none."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 else ""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which events somebody wants, by the columns of the log, so that only those are decoded. `job`
    is a job and the tasks of its group, `type_prefix` whole types or the beginning of them.
    """

    job: str = ""
    project: str = ""
    type_prefix: str = ""

    def filter(self) -> Filter:
        """Whether an event is one of them."""
        job, project, type_prefix = self.job, self.project, self.type_prefix
        stream, tasks = f"job/{job}", f"job/{job}/"

        def match(event: Stored) -> bool:
            return (
                (not job or event.stream == stream or event.stream.startswith(tasks))
                and (not project or event.project == project)
                and (not type_prefix or event.type.startswith(type_prefix))
            )

        return match
