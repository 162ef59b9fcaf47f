"""What every worker of a gang is told about the gang.

Rule: the same names for every framework; what differs between the processes of one worker is the
agent's to say.
"""

from __future__ import annotations

from headrace.placement.state import Job, Run


def environment_of(job_id: str, job: Job, run: Run, rank: int) -> dict[str, str]:
    """The variables of the worker `rank`, beside the job's own."""
    workers = run.workers
    devices = len(workers[rank].devices)
    processes = max(1, devices) if job.gang.per_gpu_processes else 1
    environment = {
        "HEADRACE_JOB_ID": job_id,
        "HEADRACE_ATTEMPT": str(run.attempt),
        "HEADRACE_PROJECT": job.project,
        "HEADRACE_NODE_RANK": str(rank),
        "HEADRACE_NUM_NODES": str(len(workers)),
        "HEADRACE_NODE_IPS": ",".join(worker.address for worker in workers),
        "HEADRACE_GPUS_PER_NODE": str(devices),
        "HEADRACE_WORLD_SIZE": str(len(workers) * processes),
        "MASTER_ADDR": workers[0].address,
        "MASTER_PORT": str(run.port),
        "WORLD_SIZE": str(len(workers) * processes),
    }
    if job.group:
        environment["HEADRACE_JOB_INDEX"] = str(job.index)
    return environment
