"""Whose lease has ended: workers of jobs that are to be replaced when their node cannot be heard.

Rule: a node's lease counts from when it was last heard, and ends for placement later than for the
node by the grace its workers have and a margin. How long a node has been silent is a fact, measured
by the leader's own steady clock from the node's last word or, if that is later, from its own start;
no wall clock decides. Where many nodes go silent together the fault is hardly theirs: they keep
what they run.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.decider import Draft
from headrace.events.attempts import AttemptExpired
from headrace.events.gangs import Act
from headrace.placement.derived import index_of
from headrace.placement.state import Job, State

TOGETHER_MIN = 2  # so many silent nodes, or a tenth of all if that is more, are one fault
TOGETHER_PERMILLE = 100
_US = 1_000_000


def decide_leases(state: State) -> Iterator[Draft]:
    """Each worker whose lease has ended, by node and job."""
    for node in sorted(index_of(state).silent):
        if went_silent_together(state, node):
            continue
        silent_us = state.machines[node].silent_us
        for job_id in sorted(index_of(state).on_node.get(node, ())):
            job = state.jobs[job_id]
            if job.replace_after_us and silent_us >= ends_after_us(state, job):
                yield from _expired(state, job_id, job, node)


def ends_after_us(state: State, job: Job) -> int:
    """After how much silence of its node a worker of this job has certainly gone."""
    extra_s = state.setting("stop_grace_s") + state.setting("replace_margin_s")
    return job.replace_after_us + extra_s * _US


def due_us(state: State, node: str, silent_us: int) -> int:
    """The longest of the leases there that have ended in a silence of `silent_us` and are not known
    to have; 0 when there is none.
    """
    known_us = state.machines[node].silent_us
    jobs = (state.jobs[job_id] for job_id in index_of(state).on_node.get(node, ()))
    ends = (ends_after_us(state, job) for job in jobs if job.replace_after_us)
    return max((end_us for end_us in ends if known_us < end_us <= silent_us), default=0)


def went_silent_together(state: State, node: str) -> bool:
    """Whether so many nodes went silent at about the same time as this one that one fault, of the
    network or of placement, is likelier than as many of machines.
    """
    at_us = state.machines[node].silent_at_us
    window_us = state.setting("silent_together_s") * _US
    silent = (state.machines[name].silent_at_us for name in index_of(state).silent)
    together = sum(1 for other_us in silent if abs(other_us - at_us) <= window_us)
    return together >= max(TOGETHER_MIN, -(-len(state.machines) * TOGETHER_PERMILLE // 1000))


def _expired(state: State, job_id: str, job: Job, node: str) -> Iterator[Draft]:
    run = job.run
    assert run is not None  # the index names jobs that run there
    numbers = {
        "replace_after_us": job.replace_after_us,
        "silent_us": state.machines[node].silent_us,
        "silent_nodes": len(index_of(state).silent),
    }
    for worker in run.workers:
        if worker.node == node and worker.rank not in run.exits:
            event = AttemptExpired(
                job=job_id,
                project=job.project,
                attempt=run.attempt,
                rank=worker.rank,
                node=node,
                act=Act(rule="lease-ended", numbers=numbers),
            )
            yield Draft(event=event, causation=run.position, traceparent=job.traceparent)
