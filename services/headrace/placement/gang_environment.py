"""What every worker of a gang is told about the gang.

Rule: facts alone, the same names for every framework; the agent says them in the framework's own
words (`documents.frameworks`). Ranks of an elastic gang name its workers and are never given again.
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
        "HEADRACE_NODE_NAMES": ",".join(worker.node for worker in workers),
        "HEADRACE_NODE_SLOTS": ",".join(str(max(1, len(worker.devices))) for worker in workers),
        "HEADRACE_NODE_PORTS": ",".join(map(str, _ports(job, run))),
        "HEADRACE_GPUS_PER_NODE": str(len(mine.devices) if mine is not None else 0),
        "MASTER_ADDR": workers[0].address,
        "MASTER_PORT": str(run.port),
    }
    if job.is_elastic:
        told["HEADRACE_NUM_NODES_MIN"] = str(job.gang.nodes)
        told["HEADRACE_NUM_NODES_MAX"] = str(job.gang.nodes_max)
    return told


def _ports(job: Job, run: Run) -> list[int]:
    """By worker, the first of the ports that its processes may listen at, one each."""
    first, here = run.port + 1, processes_of(job, run.workers[0])
    return [first + index * here for index in range(len(run.workers))]


def processes_of(job: Job, worker: Worker) -> int:
    """How many copies of the command run on the worker's node."""
    return max(1, len(worker.devices)) if job.gang.per_gpu_processes else 1
