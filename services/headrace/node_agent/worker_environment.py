"""The environment of a worker's processes: what each of them is told about itself and its gang.

Rule: pure. A worker inherits nothing of the agent's own environment but what is named here; what
the job sets itself wins over Headrace's defaults, never over its facts.
"""

from __future__ import annotations

import msgspec

from headrace.bus.agents import Assignment, Launch
from headrace.documents import frameworks
from headrace.documents.workspaces import APP_PORT, APP_SOCKET
from headrace.node_agent.enforcement import Bound
from headrace.node_agent.supervision.protocol import (
    CHECKPOINT,
    MARKER,
    OUTPUT,
    REPORTS,
    STOP_REASON,
    socket_of,
)

INHERITED = ("PATH", "HOME", "LANG", "USER", "LOGNAME", "TMPDIR", "TZ")
DEFAULTS = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONUNBUFFERED": "1",  # so that output can be followed
}


def environment_of(
    assignment: Assignment,
    launch: Launch,
    bound: Bound,
    *,
    base: dict[str, str],
    folder: str,
    marker: str,
) -> dict[str, str]:
    """What all processes of the worker share. `bound` is how it is bound to its devices, `base` the
    agent's own environment.
    """
    env = dict(DEFAULTS)
    env.update({name: base[name] for name in INHERITED if base.get(name)})
    env.update(bound.caps)
    env.update(frameworks.defaults(place_of(assignment, launch, folder)))
    env.update(launch.env)
    env.update(launch.secrets)
    env.update(_identity(assignment, launch.env))
    env.update(bound.facts)
    env["HEADRACE_OUTPUT_DIR"] = f"{folder}/{OUTPUT}"
    env["HEADRACE_REPORT_DIR"] = f"{folder}/{REPORTS}"
    env["HEADRACE_STOP_REASON_FILE"] = f"{folder}/{STOP_REASON}"
    env.setdefault("HEADRACE_CHECKPOINT_DIR", f"{folder}/{CHECKPOINT}")
    if APP_PORT in env:
        env[APP_SOCKET] = f"{folder}/{socket_of(env[APP_PORT])}"
    env[MARKER] = marker
    if frameworks.programs(launch.framework):
        env["PATH"] = f"{folder}/{frameworks.BIN}:{env['PATH']}"
    return env


def processes_of(assignment: Assignment, launch: Launch, folder: str) -> list[dict[str, str]]:
    """What each process of the worker is told beside that: its place, as its framework has it."""
    place = place_of(assignment, launch, folder)
    return [
        frameworks.environment(launch.framework, msgspec.structs.replace(place, local=local))
        for local in range(place.processes)
    ]


def place_of(assignment: Assignment, launch: Launch, folder: str) -> frameworks.Place:
    """Where the worker's first process stands in its gang, as placement said in the launch."""
    env, devices = launch.env, len(assignment.shares)
    nodes = _count(env, "HEADRACE_NUM_NODES")
    told = frameworks.Place(
        job=assignment.job,
        attempt=assignment.attempt,
        folder=folder,
        names=_list(env, "HEADRACE_NODE_NAMES", nodes, "localhost"),
        addresses=_list(env, "HEADRACE_NODE_IPS", nodes, "127.0.0.1"),
        ports=tuple(map(_whole, _list(env, "HEADRACE_NODE_PORTS", nodes, "0"))),
        slots=tuple(map(_whole, _list(env, "HEADRACE_NODE_SLOTS", nodes, "1"))),
        port=_whole(env.get("MASTER_PORT", "")),
        node_rank=assignment.rank,
        processes=max(1, launch.processes),
        devices=devices,
        cores=assignment.cpu_milli // 1000,
    )
    if "HEADRACE_ROLE" in env:
        counts = tuple(map(_whole, _list(env, "HEADRACE_NODE_PROCESSES", nodes, "1")))
        roles = _list(env, "HEADRACE_NODE_ROLES", nodes, env["HEADRACE_ROLE"])
        told = msgspec.structs.replace(told, counts=counts, roles=roles, role=env["HEADRACE_ROLE"])
    if "HEADRACE_NUM_NODES_MAX" not in env:
        return told
    least, most = _count(env, "HEADRACE_NUM_NODES_MIN"), _count(env, "HEADRACE_NUM_NODES_MAX")
    return msgspec.structs.replace(told, nodes_min=least, nodes_max=most)


def _identity(assignment: Assignment, env: dict[str, str]) -> dict[str, str]:
    told = {
        "HEADRACE_JOB_ID": assignment.job,
        "HEADRACE_ATTEMPT": str(assignment.attempt),
        "HEADRACE_PROJECT": assignment.project,
        "HEADRACE_NODE_RANK": str(assignment.rank),
        "HEADRACE_NUM_NODES": str(_count(env, "HEADRACE_NUM_NODES")),
        "HEADRACE_GPUS_PER_NODE": str(len(assignment.shares)),
    }
    if assignment.traceparent:
        told["TRACEPARENT"] = assignment.traceparent
    return told


def _list(env: dict[str, str], name: str, count: int, default: str) -> tuple[str, ...]:
    """One word per node; where placement did not say so many, `default` for each."""
    words = tuple(env.get(name, "").split(","))
    return words if len(words) == count and all(words) else (default,) * count


def _count(env: dict[str, str], name: str) -> int:
    return max(1, _whole(env.get(name, "")))


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0
