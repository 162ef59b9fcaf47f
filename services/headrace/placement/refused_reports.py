"""Reports that were refused: acknowledged, so that agents do not repeat them, and put on record.

Rule: at most one event a minute for each node, the first at once; it counts what came since. A report
is acknowledged when all before it are in the log or refused too.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from headrace.bus.agents import Report
from headrace.events.nodes import NodeReportRefused
from headrace.placement.state import State
from headrace.runtime.service import Runtime

RECORD_S = 60.0  # between two events about one node
WAITING_MAX = 4_096  # refused reports of one node that wait for those before them

_LOG = logging.getLogger("headrace.placement")


class RefusedReports:
    """Of all nodes, while this instance leads. `now_s` is a monotonic clock."""

    def __init__(self, runtime: Runtime, now_s: Callable[[], float]) -> None:
        self._runtime, self._now_s = runtime, now_s
        self._refused: dict[str, tuple[str, set[int]]] = {}  # by node: its journal, and which of it
        self._counts: Counter[str] = Counter()  # by node, since the last event
        self._recorded_s: dict[str, float] = {}

    def refuse(self, node: str, incarnation: str, report: Report, why: str) -> None:
        """Acknowledge a report that is not recorded, and count it."""
        journal, waiting = self._refused.get(node, ("", set()))
        if journal != incarnation:
            waiting = set()
        if len(waiting) < WAITING_MAX:  # else it is repeated, and refused again
            waiting.add(report.sequence)
        self._refused[node] = (incarnation, waiting)
        self._counts[node] += 1
        now_s = self._now_s()
        if now_s - self._recorded_s.get(node, -RECORD_S) < RECORD_S:
            return
        self._recorded_s[node] = now_s
        _LOG.warning("report refused node=%s what=%s: %s", node, report.what[:20], why)
        fact = NodeReportRefused(
            node=node,
            what=report.what[:20],
            job=report.job[:128],
            attempt=report.attempt,
            rank=report.rank,
            device=report.device[:128],
            reason=why,
            count=self._counts.pop(node),
        )
        self._runtime.record(fact)

    def settled_through(self, node: str) -> int:
        """The last report of the node's journal up to which all are in the log or refused."""
        state: State = self._runtime.state
        machine = state.machines.get(node)
        if machine is None:
            return 0
        incarnation, waiting = self._refused.get(node, ("", set()))
        through = machine.recorded
        if incarnation != machine.said.incarnation:
            return through
        while through + 1 in waiting:
            through += 1
        self._refused[node] = (incarnation, {number for number in waiting if number > through - 1})
        return through
