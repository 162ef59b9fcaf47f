"""What an operator may do to a node: cordon, uncordon, drain, fence, delete, forget.

Rule: to fence is to state that nothing runs there any more; its attempts are then over. A node that
is heard says itself what it runs, so only a silent one is fenced: a statement that arrives late,
when the machine is back, must not free what runs on it. A node is deleted when nothing is placed on
it; to forget it is to fence it, and to delete it as soon as what it held is given back.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.decider import Draft
from headrace.events import Refusal
from headrace.events.gangs import Act
from headrace.events.nodes import NodeChanged, NodeChangeRefused
from headrace.placement.derived import index_of
from headrace.placement.pause_rules import ended
from headrace.placement.state import Change, State

CHANGES = ("cordon", "uncordon", "drain", "fence", "delete", "forget", "end-strays")
JOBS_SHOWN_MAX = 5
DRAIN = "node-drain"


def decide_changes(state: State) -> Iterator[Draft]:
    """The answer to each request, in the order of the log; then the ends of forgotten nodes."""
    for position, change in state.changes.items():
        refusal = _refusal(state, change)
        given_up = tuple(_on(state, change.node)) if change.change in ("fence", "forget") else ()
        event = (
            NodeChanged(
                node=change.node,
                change=change.change,
                given_up=given_up,
                deadline_us=change.deadline_us,
            )
            if refusal is None
            else NodeChangeRefused(node=change.node, refusal=refusal)
        )
        yield Draft(event=event, causation=position, actor=change.user)
    for node, forgotten_at in state.forgotten.items():
        if not _on(state, node):
            yield Draft(event=NodeChanged(node=node, change="delete"), causation=forgotten_at)


def decide_drains(state: State, now_us: int, limit: int) -> dict[str, Draft]:
    """By job: ask those on draining nodes to move that have not ended within the deadline, at most
    `limit` of them, but for those about whose lives this turn decides anyway.
    """
    drafts: dict[str, Draft] = {}
    for node, machine in state.machines.items():
        is_due = machine.draining and machine.drains_at_us <= now_us
        for job_id in _on(state, node) if is_due else ():
            job = state.jobs[job_id]
            is_told = job.run is None or bool(job.run.evicted) or job_id in state.due
            if is_told or len(drafts) >= limit:
                continue
            assert job.run is not None  # what is on a node runs
            event = ended(job_id, job, job.run, DRAIN, Act(rule=DRAIN))
            drafts[job_id] = Draft(
                event=event, causation=machine.draining, traceparent=job.traceparent
            )
    return drafts


def _on(state: State, node: str) -> list[str]:
    """The jobs that hold something there."""
    return sorted(index_of(state).on_node.get(node, ()))


def _refusal(state: State, change: Change) -> Refusal | None:
    if change.change not in CHANGES:
        rule = "is not something that can be done to a node"
        return Refusal(field="change", value=change.change, rule=rule, instead=" or ".join(CHANGES))
    if change.node not in state.machines:
        instead = "" if state.machines else "none has joined yet"
        return Refusal(
            field="node", value=change.node, rule="no such node", instead=instead, unknown="node"
        )
    if change.change == "end-strays" and not state.machines[change.node].strays:
        rule = "runs nothing but what this log has placed there"
        return Refusal(field="node", value=change.node, rule=rule)
    if change.change in ("fence", "forget") and not state.machines[change.node].silent:
        rule = "is heard, so it says itself what runs there"
        instead = f"drain it, or {change.change} it after {state.setting('silence_s')} s of silence"
        return Refusal(field="node", value=change.node, rule=rule, instead=instead)
    if change.change == "delete" and (jobs := _on(state, change.node)):
        some = ", ".join(jobs[:JOBS_SHOWN_MAX])
        rule = f"{len(jobs)} {'job runs' if len(jobs) == 1 else 'jobs run'} there: {some}"
        instead = f"headrace node drain {change.node} first"
        return Refusal(field="node", value=change.node, rule=rule, instead=instead)
    return None
