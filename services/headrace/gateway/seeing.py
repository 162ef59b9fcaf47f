"""What somebody may see of the platform: the rows of their projects, and of others that they exist.

Rule: a project that somebody may not read is "another project" wherever the platform would name it,
and so are its jobs. What is not known to be harmless is not shown. What a project said itself, its
jobs' names, reports and last words, is shown as it was said: were names looked for there, a job could
say a list of words, and what is hidden of it would tell which of them are names of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headrace.client.model import ENDED, AttemptRow, Description, Happening, JobRow, NodeRow
from headrace.events import CATALOGUE
from headrace.gateway.projection import Projection
from headrace.scheduling.explanation import Explanation

OWN = frozenset(  # fields of events that have a project's own words
    ("name", "user", "way", "what", "message", "metric", "value", "before_value", "trial")
)
STOPPING = "stopping"  # a worker that is to go, perhaps for another's job
ANOTHER = "another project"
ANOTHERS_JOB = "a job of another project"
DASH = " — "  # between what a job file said and what it was told

_NAMES = re.compile(r"[a-z0-9][a-z0-9-]*(?:/\d+)?")
_IDS = re.compile(r"\b[a-z0-9][a-z0-9-]*-[a-z0-9]{4,}(?:/\d+)?\b")


class Sight:
    """What one asker sees. `sees` says it of a project; None: everything."""

    def __init__(self, projection: Projection, sees: Callable[[str], bool] | None) -> None:
        self._projection = projection
        self._sees = sees

    def job_row(self, row: JobRow) -> JobRow:
        """A row of a job that may be seen, which may name others."""
        if self._sees is not None and row.state == "refused":
            own, dash, rest = row.why.rpartition(DASH)
            row.why = f"{own}{dash}{self._text(rest, own)}"
        elif self._sees is not None and row.state not in ENDED:  # it ended with its own words
            known = self._projection.job(row.job)
            row.why = self._text(row.why, known.best if known is not None else "")
        return row

    def explanation(self, why: Explanation) -> Explanation:
        """Why a job waits, without who is in its way."""
        if self._sees is None:
            return why
        texts = {
            name: self._text(getattr(why, name)) for name in ("text", "quota", "evicts", "sooner")
        }
        return msgspec.structs.replace(why, names=self._names(why.names), **texts)

    def description(self, found: Description) -> Description:
        """One job in full, without who gained by its evictions."""
        if self._sees is None:
            return found
        found.job = self.job_row(found.job)
        found.tasks = [self.job_row(row) for row in found.tasks]
        found.timeline = [self.happening(event) for event in found.timeline]
        for attempt in found.attempts:
            self._attempt(attempt)
        return found

    def happening(self, event: Happening) -> Happening:
        """An event of a project that may be seen: what projects are told of events of this type."""
        if self._sees is None:
            return event
        public = CATALOGUE[event.type].public
        event.data = {
            name: self._told(name, value) for name, value in event.data.items() if name in public
        }
        return event

    def _told(self, name: str, value: Any) -> Any:
        """A field of an event."""
        if name in OWN:
            return value
        return self._refusal(value) if name == "refusal" else self._any(value)

    def node_row(self, row: NodeRow) -> NodeRow:
        """A node, with those who hold it only where they may be seen."""
        if self._sees is not None:
            row.jobs = [job for job in row.jobs if self._sees_job(job)]
            for device in row.devices:
                device.held = self._held(device.held)
        return row

    def _attempt(self, attempt: AttemptRow) -> None:
        attempt.names = self._names(attempt.names)
        attempt.eviction_names = self._names(attempt.eviction_names)
        if attempt.gainer and not self._sees_job(attempt.gainer):
            attempt.gainer = ANOTHERS_JOB
        for worker in attempt.workers:
            if worker.state == STOPPING:  # for whom; else it is how it ended, in its own words
                worker.message = self._text(worker.message)

    def _held(self, held: Mapping[str, int]) -> dict[str, int]:
        shown: dict[str, int] = {}
        for job, milli in held.items():
            name = job if self._sees_job(job) else ANOTHER
            shown[name] = shown.get(name, 0) + milli
        return shown

    def _sees_job(self, job: str) -> bool:
        known = self._projection.job(job)
        return known is not None and self._sees is not None and self._sees(known.project)

    def _names(self, names: Mapping[str, str]) -> dict[str, str]:
        """Names that a decision keeps: those of machines, and of what may be seen. What looks like a
        job that is not known any more may be anybody's.
        """
        return {
            key: value
            if value in self._projection.held
            else _IDS.sub(self._known, self._text(value))
            for key, value in names.items()
        }

    def _known(self, found: re.Match[str]) -> str:
        name = found[0]
        is_known = name in self._projection.nodes or name in self._projection.queues
        return name if is_known or self._sees_job(name) else ANOTHERS_JOB

    def _text(self, text: str, own: str = "") -> str:
        """A line for people, with every name in it looked at but those of a job file's own words:
        were they hidden where there is something of that name, hiding them would tell so.
        """
        said = frozenset(_NAMES.findall(own))
        return _NAMES.sub(lambda it: it[0] if it[0] in said else self._name(it[0]), text)

    def _refusal(self, refusal: Mapping[str, str]) -> dict[str, str]:
        """Why a job file was refused: what it said itself, and what it was told."""
        own = {name: refusal[name] for name in ("field", "value") if name in refusal}
        told = {name: self._text(text, " ".join(own.values())) for name, text in refusal.items()}
        return told | own

    def _name(self, name: str) -> str:
        if self._sees is None:
            return name
        queue = self._projection.queues.get(name)
        if queue is not None and queue.kind == "project" and not self._sees(name):
            return ANOTHER
        known = self._projection.job(name)
        return ANOTHERS_JOB if known is not None and not self._sees(known.project) else name

    def _any(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._any(item) for item in value]
        if isinstance(value, dict):
            return {key: self._any(item) for key, item in value.items()}
        return value
