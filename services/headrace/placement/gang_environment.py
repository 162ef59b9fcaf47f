"""What every worker of a gang is told about the gang.

Rule: the same names for every framework; what differs between the processes of one worker is the
agent's to say.
"""

from __future__ import annotations

from headrace.events.gangs import Worker
from headrace.placement.state import Job, Run


def environment_of(job_id: str, job: Job, run: Run, rank: int) -> dict[str, str]:
    """The variables of the worker `rank`, beside the job's own."""
    workers = run.workers
    return {
        "HEADRACE_JOB_ID": job_id,
        "HEADRACE_ATTEMPT": str(run.attempt),
        "HEADRACE_PROJECT": job.project,
        "HEADRACE_NODE_RANK": str(rank),
        "HEADRACE_NUM_NODES": str(len(workers)),
        "HEADRACE_NODE_IPS": ",".join(worker.address for worker in workers),
        "HEADRACE_GPUS_PER_NODE": str(len(workers[rank].devices)),
        "MASTER_ADDR": workers[0].address,
        "MASTER_PORT": str(run.port),
    }


def processes_of(job: Job, worker: Worker) -> int:
    """How many copies of the command run on the worker's node."""
    return max(1, len(worker.devices)) if job.gang.per_gpu_processes else 1
