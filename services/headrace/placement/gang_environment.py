"""What every worker of a gang is told about the gang.

Rule: the same names for every framework; ranks of an elastic gang name its workers and are
never given again, and its frameworks number their members by themselves; what differs between the processes of one worker is the
agent's to say.
"""

from __future__ import annotations

import msgspec

from headrace.events.gangs import Worker
from headrace.placement.runs import Run
from headrace.placement.state import Job


def environment_of(job_id: str, job: Job, run: Run, rank: int) -> dict[str, str]:
    """The variables of the worker `rank`, beside the job's own."""
    workers, mine = run.workers, run.worker(rank)
    assert mine is not None  # it is one of them
    told = {
        "HEADRACE_JOB_ID": job_id,
        "HEADRACE_ATTEMPT": str(run.attempt),
        "HEADRACE_PROJECT": job.project,
        "HEADRACE_NODE_RANK": str(rank),
        "HEADRACE_NUM_NODES": str(len(workers)),
        "HEADRACE_NODE_IPS": ",".join(worker.address for worker in workers),
        "HEADRACE_NODE_PORTS": ",".join(str(worker.port) for worker in workers),
        "HEADRACE_GPUS_PER_NODE": str(len(mine.devices)),
        "MASTER_ADDR": workers[0].address,
        "MASTER_PORT": str(run.port),
    }
    if job.gang.roles:
        told |= _role(job, run, mine)
    return told | _elastic(job_id, job, run, rank) if job.is_elastic else told


def peers_of(run: Run) -> dict[str, list[str]]:
    """Where the workers of each role listen, `address:port`, by rank; under "" without roles."""
    peers: dict[str, list[str]] = {}
    for worker in run.workers:
        peers.setdefault(worker.role, []).append(f"{worker.address}:{worker.port}")
    return peers


def _role(job: Job, run: Run, mine: Worker) -> dict[str, str]:
    """Which of the roles it has, which of its workers it is, and who has the others; how many
    processes there are before its own, as roles may have several on a node.
    """
    counts = [(worker, processes_of(job, worker)) for worker in run.workers]
    before = sum(count for worker, count in counts if worker.rank < mine.rank)
    peers = peers_of(run)
    ranks = [worker.rank for worker in run.workers if worker.role == mine.role]
    return {
        "HEADRACE_ROLE": mine.role,
        "HEADRACE_ROLE_RANK": str(ranks.index(mine.rank)),
        "HEADRACE_ROLE_NODES": str(len(ranks)),
        "HEADRACE_ROLES": msgspec.json.encode(peers).decode(),
        "HEADRACE_FIRST_RANK": str(before),
        "HEADRACE_WORLD_SIZE": str(sum(count for _, count in counts)),
    }


def _elastic(job_id: str, job: Job, run: Run, rank: int) -> dict[str, str]:
    """How members find each other that come and go: rank 0, which stays to the end, holds the
    rendezvous.
    """
    least, most = job.gang.nodes, job.gang.nodes_max
    return {
        "HEADRACE_NUM_NODES_MIN": str(least),
        "HEADRACE_NUM_NODES_MAX": str(most),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{run.workers[0].address}:{run.port}",
        "PET_RDZV_ID": f"{job_id}-{run.attempt}".replace("/", "-"),  # torchrun makes a file of it
        "PET_RDZV_CONF": f"is_host={str(rank == 0).lower()}",
    }


def processes_of(job: Job, worker: Worker) -> int:
    """How many copies of the command run on the worker's node."""
    asked = job.gang.by_role()[worker.role]
    return max(1, len(worker.devices)) if asked.per_gpu_processes else 1
