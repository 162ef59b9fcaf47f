"""On which devices a gang goes on that has left its own.

Rule: on those it had where they are free, else on others of the same nodes where the drivers were
found to move it there; the processes never go anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from headrace.decider import Draft
from headrace.events.gangs import Act, Worker
from headrace.events.pauses import GangResumed
from headrace.placement.kept import has_own, migrates
from headrace.placement.pause_rules import CHECKPOINT
from headrace.placement.runs import Run, summed
from headrace.placement.state import Job, State
from headrace.scheduling.cluster import DEVICE_MILLI


class Given:
    """What this turn has given away of each device, beyond what the state has."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._milli: Counter[str] = Counter()

    def take(self, workers: Sequence[Worker]) -> bool:
        """Whether these devices are free in this turn. Who goes back to its own may have taken what
        was found for another, who is then served in the next.
        """
        nodes = {worker.node: self._state.nodes[worker.node] for worker in workers}
        used = {d.device: d.used_milli for node in nodes.values() for d in node.devices}
        wanted = {share.device: share.milli for share in summed(workers)}
        for device, milli in wanted.items():
            if self._milli[device] + used[device] + milli > DEVICE_MILLI:
                return False
        self._milli.update(wanted)
        return True


def back_to(state: State, run: Run, found: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """Its own devices, or those that were found; none when it can have neither now."""
    if all(has_own(state, worker) for worker in run.workers):
        return run.workers
    if not all(migrates(state, worker) for worker in run.workers):
        return ()
    devices = {worker.rank: worker.devices for worker in found}
    return tuple(msgspec.structs.replace(w, devices=devices[w.rank]) for w in run.workers)


def resumed(job_id: str, job: Job, run: Run, workers: tuple[Worker, ...]) -> Draft:
    """The gang goes on there."""
    act = Act(rule="resumes", numbers={"rested_us": run.rested_us}, names={"way": CHECKPOINT})
    event = GangResumed(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        workers=workers,
        milli=run.milli,
        act=act,
    )
    return Draft(event=event, causation=run.position, traceparent=job.traceparent)
