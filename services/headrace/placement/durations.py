"""Which attempts run for longer than they may, by this process's own steady clock.

Rule: the nodes end what has run for its `max_duration`, each by its own steady clock. This is for
what they do not end: workers that came later, and nodes on which something is wrong. It says so
later than any node and counts from when this process first saw the attempt run, so that no setting
of clocks and no change of leaders ends a job early.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from headrace.events.attempts import AttemptOverran
from headrace.placement.derived import index_of
from headrace.placement.state import Job, State
from headrace.runtime.service import Runtime

LOOK_S = 1.0
SLACK_S = 15.0  # that the nodes have, to end it and to say so


class _Watched(NamedTuple):
    """An attempt since `since_s`, when it had rested for `rested_us`; nothing to do before `due_s`."""

    attempt: int
    since_s: float
    rested_us: int
    due_s: float


class Durations:
    """The attempts that may not run for ever, from when each was seen to run."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, _Watched] = {}
        for job_id in index_of(self._state).running:
            self.runs(job_id)

    def runs(self, job_id: str) -> None:
        """The job's attempt runs from now on."""
        job = self._state.jobs.get(job_id)
        if job is None or job.run is None or not job.run.begun_us or not job.max_duration_us:
            return
        now_s = self._loop.time()
        due_s = now_s + job.max_duration_us / 1e6 + SLACK_S
        self._watched[job_id] = _Watched(job.run.attempt, now_s, job.run.rested_us, due_s)

    def ended(self, job_id: str) -> None:
        """The job's attempt is over."""
        self._watched.pop(job_id, None)

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Record who has run for too long; who rested meanwhile has as much longer."""
        now_s = self._loop.time()
        for job_id in [job_id for job_id, seen in self._watched.items() if seen.due_s <= now_s]:
            seen, job = self._watched[job_id], self._state.jobs.get(job_id)
            if job is None or job.run is None or job.run.attempt != seen.attempt:
                del self._watched[job_id]
            elif (left_s := self._left_s(job, seen, now_s)) > 0:
                self._watched[job_id] = seen._replace(due_s=now_s + left_s)
            else:
                del self._watched[job_id]
                ran_us = int((now_s - seen.since_s) * 1e6)
                self._runtime.record(
                    AttemptOverran(
                        job=job_id, project=job.project, attempt=seen.attempt, ran_us=ran_us
                    )
                )

    def _left_s(self, job: Job, seen: _Watched, now_s: float) -> float:
        assert job.run is not None  # who asks has looked
        if not job.run.booked:
            return SLACK_S  # its time stands still
        rested_s = (job.run.rested_us - seen.rested_us) / 1e6
        return seen.since_s + rested_s + job.max_duration_us / 1e6 + SLACK_S - now_s

    @property
    def _state(self) -> State:
        state: State = self._runtime.state
        return state
