"""What every worker of a gang is told about the gang.

Rule: the same names for every framework; ranks of an elastic gang name its workers and are
never given again, and its frameworks number their members by themselves; what differs between the processes of one worker is the
agent's to say.
"""

from __future__ import annotations

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
        "HEADRACE_GPUS_PER_NODE": str(len(mine.devices) if mine is not None else 0),
        "MASTER_ADDR": workers[0].address,
        "MASTER_PORT": str(run.port),
    }
    return told | _elastic(job_id, job, run, rank) if job.is_elastic else told


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
    return max(1, len(worker.devices)) if job.gang.per_gpu_processes else 1
