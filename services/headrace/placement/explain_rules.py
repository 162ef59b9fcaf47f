"""Why a job is where it is: asked at any position, decided on by nobody.

Rule: pure; the same state, job and time give the same line.
"""

from __future__ import annotations

from headrace.placement.derived import index_of, total_milli
from headrace.placement.state import Job, State
from headrace.scheduling.cluster import Scratch
from headrace.scheduling.explain import Explanation, why_waiting
from headrace.scheduling.tree import Tree


def explain(state: State, job_id: str, now_us: int) -> Explanation | None:
    """Why the job waits, or what it does; None when it is not (or no longer) there."""
    job = state.jobs.get(job_id)
    if job is None:
        return None
    waited = {"waited_us": max(0, now_us - job.admitted_us)}
    if job.run is not None:
        return _placed(state, job, waited)
    if not job.eligible:
        text = job.held or "waits to be let in"
        return Explanation(rule="held", text=text, numbers=waited)
    tree = Tree(state.queues, state.usage, total_milli(state))
    found = why_waiting(
        Scratch(state.nodes),
        tree,
        job.gang,
        job.project,
        firm=not job.preemptible,
        behind=_behind(state, job_id),
    )
    if job.gaining:
        stopping = [
            other for other in sorted(index_of(state).stopping) if _gainer(state, other) == job_id
        ]
        text = f"waits for {', '.join(stopping[:5]) or 'others'} to stop for it"
        names = {"stopping": ", ".join(stopping[:5])}
        return Explanation(rule="stopping", text=text, numbers=waited, names=names)
    return Explanation(
        rule=found.rule, text=found.text, numbers=found.numbers | waited, names=found.names
    )


def _placed(state: State, job: Job, waited: dict[str, int]) -> Explanation:
    run = job.run
    assert run is not None  # the caller saw it
    nodes = [worker.node for worker in run.workers]
    silent = [node for node in nodes if node in state.machines and state.machines[node].silent]
    where = ", ".join(nodes[:8])
    if run.evicted:
        text = f"is being stopped on {where} ({run.evicted})"
    elif run.begun_us:
        text = f"runs on {where}"
    else:
        text = f"starts on {where}"
    if silent:
        text += f"; {', '.join(silent[:8])} silent"
    return Explanation(rule="running", text=text, numbers=waited, names={"nodes": where})


def _behind(state: State, job_id: str) -> str:
    index = index_of(state)
    if job_id not in index.waiting:
        return ""
    kind, place = index.waiting[job_id]
    first = index.lines[kind].places[0]
    return first[2] if first != place else ""


def _gainer(state: State, job_id: str) -> str:
    run = state.jobs[job_id].run
    return run.gainer if run is not None else ""
