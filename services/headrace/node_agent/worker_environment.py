"""The environment of a worker's processes: what each of them is told about itself and its gang.

Rule: pure. A worker inherits nothing of the agent's own environment but what is named here; what
the job sets itself wins over Headrace's defaults, never over its facts.
"""

from __future__ import annotations

from headrace.bus.agents import Assignment, Launch
from headrace.node_agent.enforcement import Bound
from headrace.node_agent.supervision.protocol import MARKER, OUTPUT, STOP_REASON, WORK

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
    env.update(launch.env)
    env.update(launch.secrets)
    env.update(_identity(assignment, launch.env))
    env.update(bound.facts)
    env.update(_slurm(assignment, launch))
    env["HEADRACE_OUTPUT_DIR"] = f"{folder}/{OUTPUT}"
    env["HEADRACE_STOP_REASON_FILE"] = f"{folder}/{STOP_REASON}"
    env.setdefault("HEADRACE_CHECKPOINT_DIR", f"{folder}/{WORK}")
    env[MARKER] = marker
    return env


def processes_of(assignment: Assignment, launch: Launch) -> list[dict[str, str]]:
    """What each process of the worker is told beside that: its ranks, in every dialect."""
    here, nodes = max(1, launch.processes), _count(launch.env, "HEADRACE_NUM_NODES")
    told = []
    for local in range(here):
        rank = assignment.rank * here + local
        told.append(
            {
                "HEADRACE_RANK": str(rank),
                "HEADRACE_LOCAL_RANK": str(local),
                "HEADRACE_WORLD_SIZE": str(nodes * here),
                "RANK": str(rank),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(nodes * here),
                "LOCAL_WORLD_SIZE": str(here),
                "GROUP_RANK": str(assignment.rank),
                "NODE_RANK": str(assignment.rank),
                "SLURM_PROCID": str(rank),
                "SLURM_LOCALID": str(local),
            }
        )
    return told


def _identity(assignment: Assignment, env: dict[str, str]) -> dict[str, str]:
    nodes = _count(env, "HEADRACE_NUM_NODES")
    told = {
        "HEADRACE_JOB_ID": assignment.job,
        "HEADRACE_ATTEMPT": str(assignment.attempt),
        "HEADRACE_PROJECT": assignment.project,
        "HEADRACE_NODE_RANK": str(assignment.rank),
        "HEADRACE_NUM_NODES": str(nodes),
        "HEADRACE_GPUS_PER_NODE": str(len(assignment.shares)),
        "PET_NNODES": _nodes_wanted(env, nodes),
        "PET_NODE_RANK": str(assignment.rank),
        "PET_NPROC_PER_NODE": str(max(1, len(assignment.shares))),
    }
    if assignment.traceparent:
        told["TRACEPARENT"] = assignment.traceparent
    if env.get("MASTER_ADDR"):
        told["PET_MASTER_ADDR"] = env["MASTER_ADDR"]
        told["PET_MASTER_PORT"] = env.get("MASTER_PORT", "")
    return told


def _slurm(assignment: Assignment, launch: Launch) -> dict[str, str]:
    """The names by which JAX, Megatron, submitit and others find their ranks."""
    here, nodes = max(1, launch.processes), _count(launch.env, "HEADRACE_NUM_NODES")
    return {
        "SLURM_JOB_ID": assignment.job,
        "SLURM_JOB_NAME": assignment.job.partition("/")[0],
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_JOB_NODELIST": launch.env.get("HEADRACE_NODE_IPS", ""),
        "SLURM_NNODES": str(nodes),
        "SLURM_NODEID": str(assignment.rank),
        "SLURM_NTASKS": str(nodes * here),
        "SLURM_NTASKS_PER_NODE": str(here),
        "SLURM_GPUS_ON_NODE": str(len(assignment.shares)),
    }


def _nodes_wanted(env: dict[str, str], nodes: int) -> str:
    """For torchrun: how many nodes, or from how many to how many in an elastic gang."""
    if "HEADRACE_NUM_NODES_MAX" not in env:
        return str(nodes)
    return f"{_count(env, 'HEADRACE_NUM_NODES_MIN')}:{_count(env, 'HEADRACE_NUM_NODES_MAX')}"


def _count(env: dict[str, str], name: str) -> int:
    value = env.get(name, "")
    return int(value) if value.isdecimal() and int(value) > 0 else 1
