"""What every worker of a gang is told about the gang.

Rule: facts alone, the same names for every framework; the agent says them in the framework's own
words (`documents.frameworks`). Ranks of an elastic gang name its workers and are never given again.
"""

from __future__ import annotations

import msgspec

from headrace.documents.workspaces import APP_PORT, WORKSPACE
from headrace.events.gangs import Worker
from headrace.placement.runs import Run
from headrace.placement.state import Job


def environment_of(job_id: str, job: Job, run: Run, rank: int) -> dict[str, str]:
    """The variables of the worker `rank`, beside the job's own."""
    workers, mine = run.workers, run.worker(rank)
    told = {
        "HEADRACE_JOB_ID": job_id,
        "HEADRACE_ATTEMPT": str(run.attempt),
        "HEADRACE_PROJECT": job.project,
        "HEADRACE_NODE_RANK": str(rank),
        "HEADRACE_NUM_NODES": str(len(workers)),
        "HEADRACE_NODE_IPS": ",".join(worker.address for worker in workers),
        "HEADRACE_NODE_NAMES": ",".join(worker.node for worker in workers),
        "HEADRACE_NODE_SLOTS": ",".join(str(max(1, len(worker.devices))) for worker in workers),
        "HEADRACE_NODE_PORTS": ",".join(str(worker.port + 1) for worker in workers),
        "HEADRACE_GPUS_PER_NODE": str(len(mine.devices) if mine is not None else 0),
        "MASTER_ADDR": workers[0].address,
        "MASTER_PORT": str(run.port),
    }
    if job.is_elastic:
        told["HEADRACE_NUM_NODES_MIN"] = str(job.gang.nodes)
        told["HEADRACE_NUM_NODES_MAX"] = str(job.gang.nodes_max)
    return told | _role(job, run, mine) if job.gang.roles and mine is not None else told


def suggested(job: Job, worker: Worker) -> dict[str, str]:
    """The variables that a job's own may overrule: where the application of a workspace listens."""
    return {APP_PORT: str(worker.port + 1)} if job.gang.kind == WORKSPACE else {}


def _role(job: Job, run: Run, mine: Worker) -> dict[str, str]:
    """Which of the roles the worker has, which of its workers it is, and where all others listen;
    how many processes each runs, as those of one role may run several on a node.
    """
    peers: dict[str, list[str]] = {}
    for worker in run.workers:
        peers.setdefault(worker.role, []).append(f"{worker.address}:{worker.port + 1}")
    ranks = [worker.rank for worker in run.workers if worker.role == mine.role]
    return {
        "HEADRACE_ROLE": mine.role,
        "HEADRACE_ROLE_RANK": str(ranks.index(mine.rank)),
        "HEADRACE_ROLE_NODES": str(len(ranks)),
        "HEADRACE_ROLES": msgspec.json.encode(peers).decode(),
        "HEADRACE_NODE_ROLES": ",".join(worker.role for worker in run.workers),
        "HEADRACE_NODE_PROCESSES": ",".join(str(processes_of(job, w)) for w in run.workers),
    }


def processes_of(job: Job, worker: Worker) -> int:
    """How many copies of the command run on the worker's node."""
    asked = job.gang.by_role()[worker.role]
    return max(1, len(worker.devices)) if asked.per_gpu_processes else 1
