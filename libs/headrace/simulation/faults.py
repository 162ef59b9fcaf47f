"""What goes wrong in a history, and when.

Rule: drawn from the seed before anything runs; every fault ends (heals) before the history does,
and all but the last kind by the time that is asked for.
"""

from __future__ import annotations

import random

import msgspec

RUNTIME_POINTS = (
    "runtime.before_append",
    "runtime.after_append",
    "runtime.before_publish",
    "runtime.after_publish",
    "runtime.before_effects",
    "runtime.after_effects",
)
KINDS = (
    "bus.late",
    "bus.repeated",
    "bus.lost",
    "bus.client_disconnected",
    "bus.wiped",
    "store.unavailable",
    "store.commit_unknown",
    "store.clock_stepped",
    "service.crashed",
    "service.taken_over",
    "service.leads_without_store",
    "node.silent",
    "node.rebooted",
    "node.launcher_lost",
    "node.worker_killed",
    "node.fenced",
    "agent.crashed",
    "device.lost",
    "device.upset",
    "node.out_of_touch",
)
DECIDING = ("admission", "quota", "placement", "metrics")
FAULTS_MIN, FAULTS_MAX = 4, 9  # of any kind
OUT_OF_TOUCH_SHARE = 0.2  # of histories: each is that much longer
OUT_OF_TOUCH_S = 100.0  # longer than the shortest lease with grace and margin
SERVICE_CRASHES_MAX, AGENT_CRASHES_MAX = 4, 3  # besides those, at named points


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: from `at_s` for `for_s`, on `target` (a service, a node, or nobody), at `point`
    when it is a crash at a named place.
    """

    at_s: float
    for_s: float
    kind: str
    target: str = ""
    point: str = ""


def draw(
    chance: random.Random, nodes: list[str], until_s: float, agent_points: tuple[str, ...]
) -> tuple[Fault, ...]:
    """A history's faults, in order of time, all over by `until_s` but one that goes on
    for longer than a lease.
    """
    kinds = [chance.choice(KINDS[:-1]) for _ in range(chance.randint(FAULTS_MIN, FAULTS_MAX))]
    kinds += ["service.crashed"] * chance.randint(1, SERVICE_CRASHES_MAX)
    kinds += ["agent.crashed"] * chance.randint(1, AGENT_CRASHES_MAX)
    faults = []
    for kind in kinds:
        at_s = chance.uniform(1.5, until_s * 0.8)
        points = {"service.crashed": RUNTIME_POINTS, "agent.crashed": agent_points}.get(kind, ("",))
        faults.append(
            Fault(
                at_s=at_s,
                for_s=min(chance.uniform(0.5, 6.0), until_s - at_s),
                kind=kind,
                target=_target(chance, kind, nodes),
                point=chance.choice(points),
            )
        )
    if chance.random() < OUT_OF_TOUCH_SHARE:
        faults.append(_out_of_touch(chance, nodes))
    return tuple(sorted(faults, key=lambda f: (f.at_s, f.kind, f.target)))


def _out_of_touch(chance: random.Random, nodes: list[str]) -> Fault:
    """The one fault that outlasts the others: leases end in it."""
    at_s = chance.uniform(4.0, 8.0)
    target = chance.choice(nodes)
    return Fault(at_s=at_s, for_s=OUT_OF_TOUCH_S, kind="node.out_of_touch", target=target)


def _target(chance: random.Random, kind: str, nodes: list[str]) -> str:
    if kind.startswith(("node.", "agent.", "device.")):
        return chance.choice(nodes)
    if kind == "store.clock_stepped":
        return chance.choice(["hour", "year"])
    if kind == "bus.client_disconnected":
        return chance.choice([*DECIDING, *nodes])
    if kind.startswith(("service.", "store.")):
        return chance.choice([*DECIDING, "placement", "placement"])  # it has the most to lose
    return ""
