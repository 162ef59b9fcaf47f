"""What an operator may do to a node: cordon, uncordon, fence.

Rule: to fence is to state that nothing runs there any more; its attempts are then over. A node that
is heard says itself what it runs, so only a silent one is fenced: a statement that arrives late,
when the machine is back, must not free what runs on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.decider import Draft
from headrace.events import Refusal
from headrace.events.nodes import NodeChanged, NodeChangeRefused
from headrace.placement.state import Change, State

CHANGES = ("cordon", "uncordon", "fence")


def decide_changes(state: State) -> Iterator[Draft]:
    """The answer to each request, in the order of the log."""
    for position, change in state.changes.items():
        refusal = _refusal(state, change)
        event = (
            NodeChanged(node=change.node, change=change.change)
            if refusal is None
            else NodeChangeRefused(node=change.node, refusal=refusal)
        )
        yield Draft(event=event, causation=position, actor=change.user)


def _refusal(state: State, change: Change) -> Refusal | None:
    if change.change not in CHANGES:
        rule = "is not something that can be done to a node"
        return Refusal(field="change", value=change.change, rule=rule, instead=" or ".join(CHANGES))
    if change.node not in state.machines:
        known = ", ".join(sorted(state.machines)[:10]) or "none has joined yet"
        return Refusal(
            field="node", value=change.node, rule="no such node", instead=f"nodes: {known}"
        )
    if change.change == "fence" and not state.machines[change.node].silent:
        rule = "is heard, so it says itself what runs there"
        instead = f"cordon it, or fence it after {state.setting('silence_s')} s of silence"
        return Refusal(field="node", value=change.node, rule=rule, instead=instead)
    return None
