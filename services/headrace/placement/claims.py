"""Who may speak as a node: its member, and of two agents with one identity the one heard first.

Rule: an agent that has ended is not heard again, so a newcomer waits until the one before it has
been quiet for a while; if that one still speaks meanwhile there are two, and the newcomer is turned
away: what is heard at once may have been under way when its agent ended. Believing it would give back what the first still runs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from headrace.events.nodes import NodeJoined
from headrace.placement.state import State

QUIET_S = 5.0  # more than two heartbeats
LATE_S = 3.0  # a message may be under way for so long; within `QUIET_S` a living agent says more
CLAIMS_MAX = 10_000  # newcomers remembered; the oldest are forgotten first


class Verdict(enum.Enum):
    """What becomes of an agent that says it is a node."""

    BELIEVED = "believed"
    WAITS = "waits"
    STRANGER = "stranger"  # its keys are not those of the member
    SECOND = "second"  # another agent is this node and is heard


class Claims:
    """What each incarnation of a node was last heard to say, by `now_s`."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._began_s = now_s()  # whoever was heard before is taken to have been heard until then
        self._heard_s: dict[str, tuple[str, float]] = {}  # by node: incarnation, when
        self._came_s: dict[tuple[str, str], float] = {}  # newcomers, by node and incarnation

    def heard(self, node: str, incarnation: str, state: State) -> None:
        """The agent of this incarnation sent a heartbeat or a report."""
        machine = state.machines.get(node)
        if machine is not None and machine.said.incarnation == incarnation:
            self._heard_s[node] = (incarnation, self._now_s())

    def judge(self, said: NodeJoined, state: State) -> Verdict:
        """Whether this agent is the node it says it is."""
        key, machine = state.members.get(said.node), state.machines.get(said.node)
        if key is not None and key != said.public_key:
            return Verdict.STRANGER
        incarnation, heard_s = self._heard_s.get(said.node, ("", self._began_s))
        known = machine.said.incarnation if machine is not None else incarnation
        now_s = self._now_s()
        is_quiet = incarnation not in ("", known) or now_s - heard_s >= QUIET_S
        if known in ("", said.incarnation) or is_quiet:
            self._heard_s[said.node] = (said.incarnation, now_s)
            return Verdict.BELIEVED
        came_s = self._came_s.setdefault((said.node, said.incarnation), now_s)
        if len(self._came_s) > CLAIMS_MAX:
            del self._came_s[next(iter(self._came_s))]
        return Verdict.SECOND if heard_s > came_s + LATE_S else Verdict.WAITS
