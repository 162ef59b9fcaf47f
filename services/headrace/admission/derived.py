"""What is derived from admission's state and kept beside it, so that a request costs what it names.

Rule: everything here can be rebuilt from the state, and no decision may differ because of what is or
is not remembered here. What is asked for a name that nothing has costs no more than for one that
something has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from headrace.admission.state import Ended, Live, State

REFUSED = "refused"  # the outcome of a job that never was one

T = TypeVar("T")

_AFTER_ALL = chr(0x10FFFF)  # no id begins with it


class JobIds:
    """Ids by project, sorted."""

    def __init__(self) -> None:
        self._of: dict[str, list[str]] = {}

    def of(self, project: str) -> Sequence[str]:
        """All of the project's."""
        return self._of.get(project, ())

    def beginning(self, project: str, prefix: str) -> tuple[int, Sequence[str], int]:
        """Where those that begin so are among all of the project's: first, all, behind the last."""
        ids = self.of(project)
        return bisect_left(ids, prefix), ids, bisect_left(ids, prefix + _AFTER_ALL)

    def add(self, project: str, job_id: str) -> None:
        """One more."""
        ids = self._of.setdefault(project, [])
        at = bisect_left(ids, job_id)
        if ids[at : at + 1] != [job_id]:
            ids.insert(at, job_id)

    def remove(self, project: str, job_id: str) -> None:
        """It is gone."""
        ids = self._of.get(project, [])
        at = bisect_left(ids, job_id)
        if ids[at : at + 1] == [job_id]:
            del ids[at]
            if not ids:
                del self._of[project]

    @classmethod
    def of_all(cls, owners: dict[str, str]) -> JobIds:
        """Of these ids, each with its project."""
        made = cls()
        for job_id, project in sorted(owners.items()):
            made._of.setdefault(project, []).append(job_id)
        return made


class JobNames:
    """Ids by project and name, those of one name in the order in which they were asked for: a name that
    thousands of jobs have costs no more than one that one has. Tasks have no name of their own: by its name
    a sweep is meant, not how its last trial ended.
    """

    def __init__(self, jobs: Iterable[tuple[str, Live | Ended]] = ()) -> None:
        self._of: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for job_id, job in jobs:
            self.add(job_id, job)

    def newest(self, project: str, name: str) -> str | None:
        """The one that was asked for last."""
        found = self._of.get((project, name))
        return found[-1][1] if found else None

    def add(self, job_id: str, job: Live | Ended) -> None:
        """One more."""
        if is_task(job_id):
            return
        named = self._of.setdefault((job.project, name_of(job_id)), [])
        one = (job.requested_at, job_id)
        at = bisect_left(named, one)
        if named[at : at + 1] != [one]:
            named.insert(at, one)

    def remove(self, job_id: str, job: Live | Ended) -> None:
        """It is gone."""
        key, one = (job.project, name_of(job_id)), (job.requested_at, job_id)
        named = self._of.get(key, [])
        at = bisect_left(named, one)
        if named[at : at + 1] == [one]:
            del named[at]
            if not named:
                del self._of[key]


def name_of(job_id: str) -> str:
    """An id is the name, and behind its last hyphen what makes it unique."""
    return job_id.rpartition("-")[0]


def is_task(job_id: str) -> bool:
    """Whether it is of a sweep or an array: the group's id, and its index."""
    return "/" in job_id


class Index:
    """Ids of live jobs and groups without their tasks, of those that ended, and of those refused; of the
    first two by name, too; by
    project and key who was asked for under it; who has a volume; which tasks of a group are wanted
    paused.
    """

    def __init__(self, state: State) -> None:
        alone = {job_id: job for job_id, job in state.live.items() if not job.group}
        self.live = JobIds.of_all({job_id: job.project for job_id, job in alone.items()})
        refused = {job: of.project for job, of in state.outcomes.items() if of.outcome == REFUSED}
        others = {job: of for job, of in state.outcomes.items() if job not in refused}
        self.ended = JobIds.of_all({job_id: of.project for job_id, of in others.items()})
        self.refused = JobIds.of_all(refused)
        self.live_names, self.ended_names = JobNames(alone.items()), JobNames(others.items())
        self.by_key: dict[tuple[str, str], dict[str, None]] = {}
        self.with_volume: dict[str, dict[str, None]] = {}
        self.pausing: dict[str, dict[str, None]] = {}
        for job_id, job in state.live.items():
            self._volumes(job_id, job)
            self.paused(job_id, job)
            self._keyed(job_id, job)
        for job_id, ended in state.outcomes.items():
            self._keyed(job_id, ended)

    def enters(self, job_id: str, job: Live) -> None:
        """The job lives."""
        if not job.group:
            self.live.add(job.project, job_id)
            self.live_names.add(job_id, job)
        self._keyed(job_id, job)
        self._volumes(job_id, job)

    def leaves(self, job_id: str, job: Live) -> None:
        """It does not any more."""
        if not job.group:
            self.live.remove(job.project, job_id)
            self.live_names.remove(job_id, job)
        _without(self.by_key, (job.project, job.key), job_id)
        for volume in job.volumes:
            _without(self.with_volume, volume, job_id)
        _without(self.pausing, job.group, job_id)

    def ended_has(self, job_id: str, of: Ended) -> None:
        """It is remembered how the job ended."""
        self._of(of).add(of.project, job_id)
        if of.outcome != REFUSED:
            self.ended_names.add(job_id, of)
        self._keyed(job_id, of)

    def ended_forgets(self, job_id: str, of: Ended) -> None:
        """It is not any more."""
        self._of(of).remove(of.project, job_id)
        self.ended_names.remove(job_id, of)
        _without(self.by_key, (of.project, of.key), job_id)

    def _of(self, of: Ended) -> JobIds:
        return self.refused if of.outcome == REFUSED else self.ended

    def _keyed(self, job_id: str, of: Live | Ended) -> None:
        if of.key:
            self.by_key.setdefault((of.project, of.key), {})[job_id] = None

    def paused(self, job_id: str, job: Live) -> None:
        """Its people want it paused, or not any more."""
        if job.group and job.pausing:
            self.pausing.setdefault(job.group, {})[job_id] = None
        else:
            _without(self.pausing, job.group, job_id)

    def _volumes(self, job_id: str, job: Live) -> None:
        for volume in () if job.group else job.volumes:
            self.with_volume.setdefault(volume, {})[job_id] = None


def index_of(state: State) -> Index:
    """What is kept beside this state; built anew when there is nothing yet."""
    index: Index | None = state.__dict__.get("index")
    if index is None:
        index = state.__dict__["index"] = Index(state)
    return index


def of_fleet(state: State, name: str) -> dict[Any, Any]:
    """What was worked out of today's nodes, pools and volumes, by what it was asked for."""
    known: dict[Any, Any] = state.__dict__.setdefault("of_fleet", {}).setdefault(name, {})
    return known


def fleet_changed(state: State) -> None:
    """Forget what was worked out of it."""
    state.__dict__.pop("of_fleet", None)


def key_holders(state: State) -> dict[str, str]:
    """Who signs in with each public key: `node n1`, `publisher ads/etl`."""
    known: dict[str, str] | None = state.__dict__.get("holders")
    if known is None:
        known = state.__dict__["holders"] = {
            login.public_key: f"publisher {project}/{name}"
            for project, named in sorted(state.publishers.items())
            for name, login in sorted(named.items())
        }
        known |= {of.public_key: f"node {node}" for node, of in sorted(state.members.items())}
    return known


def keys_changed(state: State) -> None:
    """A publisher or a member is new, has another key, or is gone."""
    state.__dict__.pop("holders", None)


def _without(sets: dict[T, dict[str, None]], name: T, job_id: str) -> None:
    members = sets.get(name)
    if members is not None:
        members.pop(job_id, None)
        if not members:
            del sets[name]
