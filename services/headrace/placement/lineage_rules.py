"""What placement does not know after its log was restored from an older copy, and how it learns it.

Rule: pure, and nothing is guessed. Until a node has said in this line of history what runs there, it
takes no work; and until all have, no job begins that may run somewhere by a decision that was lost.
What runs and fits the log goes on; what does not keeps its devices and its job until it has ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.events.nodes import HeldWorker, ahead_text, not_heard_text, strays_text
from headrace.placement.derived import index_of, settle
from headrace.placement.state import Job, Machine, State

FORKED = "forked"  # why a job ends that goes on in the log which this one was forked from


def restored(state: State, position: int) -> None:
    """The log goes on from here, without what came after in the one before."""
    for name, machine in state.machines.items():
        machine.apart = position
        machine.strays, machine.ends_strays = (), False
        state.nodes[name].accepting = False
        index_of(state).changed_nodes[name] = None
        index_of(state).unsettled[name] = None
    for job_id, job in state.jobs.items():
        job.doubted = bool(state.machines)
        settle(state, job_id, job)


def admitted(state: State, job_id: str, job: Job) -> None:
    """A job that was asked for before, or that something runs of already, may run somewhere."""
    job.doubted = job_id in _strayed(state) or (
        job.requested_at < state.lineage.began_at and _is_open(state)
    )


def believe(state: State) -> None:
    """Who is doubted no more, now that more is known of the nodes."""
    if not state.lineage.name:
        strayed = _strayed(state)
        if not strayed and not any(job.doubted for job in state.jobs.values()):
            return
    strayed, is_open = _strayed(state), _is_open(state)
    for job_id, job in state.jobs.items():
        before = job.requested_at < state.lineage.began_at
        doubted = job_id in strayed or (job.doubted and before and is_open)
        if doubted != job.doubted:
            job.doubted = doubted
            settle(state, job_id, job)


def strays_of(state: State, node: str, running: Iterable[HeldWorker]) -> tuple[HeldWorker, ...]:
    """Of what a node says runs there, what this log has not placed there."""
    return tuple(sorted(held for held in running if not _is_placed(state, node, held)))


def apart(state: State) -> dict[str, str]:
    """The nodes that do not follow, or hold what the log does not know: what to do about each."""
    found = {}
    for name, machine in state.machines.items():
        if machine.apart and name not in state.forgotten:
            is_known = machine.apart <= state.lineage.began_at
            found[name] = not_heard_text(name) if is_known else ahead_text(name)
        elif machine.strays:
            found[name] = strays_text(name, machine.strays)
    return found


def _is_placed(state: State, node: str, held: HeldWorker) -> bool:
    job = state.jobs.get(held.job)
    run = job.run if job is not None else None
    if run is None or run.attempt != held.attempt:
        return False
    worker = run.worker(held.rank)
    if worker is None or worker.node != node or held.rank in run.exits:
        return False
    placed = {share.device for share in worker.devices}
    return not held.devices or run.pause is not None or placed == set(held.devices)


def _strayed(state: State) -> set[str]:
    return {worker.job for machine in _unsettled(state) for worker in machine.strays}


def _is_open(state: State) -> bool:
    """Whether a node has yet to say what runs there."""
    at = state.lineage.began_at
    return any(0 < machine.apart <= at for machine in _unsettled(state))


def _unsettled(state: State) -> list[Machine]:
    """Those few nodes that can be either: every job that is admitted asks."""
    return [state.machines[name] for name in index_of(state).unsettled]
