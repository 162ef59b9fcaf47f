"""What a project is told of an event: on the bus, and by webhooks.

Rule: only an event's public fields, and only to its own project. The position is the message's id.
Each outcome names its job as the pipeline knows it: the name in the job file, and the key of the
request that submitted it, both from the job's `job.requested`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.events import CATALOGUE, Event, Refusal, decode, decode_header, project_of
from headrace.events.jobs import JobRequested
from headrace.runtime.inbox import GATEWAY_SOURCE
from headrace.runtime.pipelines.cloud_events import cloud_event
from headrace.store.interface import Store, Stored

SUBMISSIONS_MAX = (
    10_000  # remembered; those of other jobs are read from the log when they are needed
)


class Outcome(msgspec.Struct, frozen=True):
    """A message about an event: JSON, and headers of CloudEvents 1.0 in binary mode. The content type
    is JSON, which each transport says in a way of its own.
    """

    project: str
    type: str
    body: bytes
    headers: dict[str, str]


class Submission(msgspec.Struct, frozen=True):
    """How a pipeline knows its job: the name it gave it and the key it submitted it with."""

    name: str = ""
    key: str = ""


class Outcomes:
    """The outcomes of the log's events. Remembers how jobs were submitted."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._submissions: dict[str, Submission] = {}  # those used last are the last

    async def of(self, event: Stored) -> Outcome | None:
        """What the event's project is told; None when it is nothing. Raises `ValueError` for an event
        that cannot be read, or that is recorded for another project than it is about; `StoreError`.
        """
        type_ = CATALOGUE.get(event.type)
        if type_ is None or not type_.public or not event.project:
            return None
        decoded = decode(event.type, event.data)
        if project_of(decoded) != event.project:
            raise ValueError(f"recorded for project {event.project}, about {project_of(decoded)}")
        if isinstance(decoded, JobRequested):
            self._remember(decoded.job, _submission_of(event, decoded))
        return _outcome(event, decoded, await self._submission(event.project, decoded))

    async def _submission(self, project: str, event: Event) -> Submission:
        job = str(getattr(event, "job", "")).partition("/")[
            0
        ]  # a task was submitted with its group
        if not job:
            return Submission()
        found = self._submissions.pop(job, None)
        if found is None:
            found = Submission()  # of a job that nobody knows
            for first in await self._store.read_stream(f"job/{job}", 0, 1):
                if first.type == "job.requested.v1" and first.project == project:
                    requested = decode(first.type, first.data)
                    assert isinstance(requested, JobRequested)
                    found = _submission_of(first, requested)
        self._remember(job, found)
        return found

    def _remember(self, job: str, submission: Submission) -> None:
        self._submissions[job] = submission
        if len(self._submissions) > SUBMISSIONS_MAX:
            del self._submissions[next(iter(self._submissions))]


def _submission_of(event: Stored, requested: JobRequested) -> Submission:
    return Submission(name=requested.name, key=decode_header(event.header).request_key)


def _outcome(event: Stored, decoded: Event, submission: Submission) -> Outcome:
    body: dict[str, Any] = {name: getattr(decoded, name) for name in decoded.public}
    if getattr(decoded, "job", ""):
        refusal = getattr(decoded, "refusal", None)
        body.setdefault("name", submission.name)
        body.setdefault("key", submission.key)
        body.setdefault("reason", str(refusal) if isinstance(refusal, Refusal) else "")
    body["type"], body["position"] = event.type, event.position
    header = decode_header(event.header)
    headers = cloud_event(
        id=str(event.position),
        type=event.type,
        at_us=event.recorded_at_us,
        subject=header.correlation,
    )
    headers["ce-sequence"] = f"{event.position:020d}"
    if header.request_key:
        headers["ce-correlationid"] = header.request_key
        if not header.request_source.startswith(GATEWAY_SOURCE):  # that names a person
            headers["ce-correlationsource"] = header.request_source
    if header.traceparent:
        headers["traceparent"] = header.traceparent
    return Outcome(event.project, event.type, msgspec.json.encode(body), headers)
