"""How an attempt ended, which of its workers tells why, and whether the job is tried again.

Rule: of several workers that failed the first one tells, for the others may have ended because of it.
What the platform took back is no failure; what its machines lost is tried again a few times even
where the job does not ask for it. A reason has one word, from here to the last message.
"""

from __future__ import annotations

import msgspec

from headrace.placement.pause_rules import LEAVES
from headrace.placement.release_rules import NODE_LOST, Again, deciding
from headrace.placement.runs import MOVED, Exit, Run
from headrace.placement.state import Job, State
from headrace.scheduling.kinds import is_kind

TIMEOUT = "timeout"  # why an attempt ends that has run for as long as it may
REQUEUED = "requeued"  # the job asked for another attempt
# Between the begins of two attempts of which the first asked for the second: else a job that asks at once
# fills log and queue by itself. Slurm holds a requeued job for two minutes.
REQUEUED_APART_US = 10_000_000
EXIT_TIMEOUT = 124  # what an agent reports that had to hold the maximum duration by itself
CLOCKS_AGREE_US = 2_000_000  # ends recorded that close together are in the order of nodes' clocks

OUT_OF_MEMORY = "out-of-memory"  # of a GPU
DEVICE_FAULTY = "device-faulty"  # why an attempt ends whose device is at fault
DISK_FULL = "disk-full"  # of the node, before the attempt could start there
PORTS_TAKEN = "ports-taken"  # somebody outside listens where the attempt was to

FOR_OTHERS = (
    "reclaimed",
    "preempted",
    MOVED,
    "node-drain",
)  # why an attempt ends that its job is not to blame for

REASONS = (  # of a worker's end, and what it is called; what tells most first
    ("start-failed", "start-failed"),
    ("disk-full", DISK_FULL),
    ("setup", "setup"),
    ("over-share", OUT_OF_MEMORY),
    ("gpu-oom", OUT_OF_MEMORY),
    ("oom", "oom"),
    ("ports-taken", PORTS_TAKEN),
    ("lost", NODE_LOST),  # its peers fail when they miss it, and are often heard first
    ("exited", "error"),
    ("stopped", NODE_LOST),  # by somebody else than us
)
PLATFORM = (NODE_LOST, DEVICE_FAULTY, DISK_FULL, PORTS_TAKEN)
CAUSES = {  # what a job calls it in `retry.on`
    NODE_LOST: "node-lost",
    DEVICE_FAULTY: "node-lost",
    "oom": "oom",
    OUT_OF_MEMORY: "oom",
    "error": "error",
    TIMEOUT: "timeout",
    "setup": "setup",
    "start-failed": "setup",
}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is succeeded, failed, cancelled, or again; the worker `rank` tells why (below 0:
    nobody has to).
    """

    outcome: str
    reason: str = ""
    rank: int = -1


def ending(state: State, job: Job, run: Run) -> Ending:
    """How the attempt ended."""
    found = _how(job, run)
    if found.outcome != "failed":
        return found
    if found.reason == REQUEUED:
        again = job.requeues < state.setting("requeues_max")
    elif is_counted(job, found.reason):
        again = job.tries + 1 < job.retry.attempts
    else:
        again = found.reason in PLATFORM and job.lost < state.setting("attempts_lost_max")
    return msgspec.structs.replace(found, outcome="again") if again else found


def again(state: State, job: Job, run: Run, found: Ending) -> Again:
    """How the job is tried again after this end."""
    ended_us = max((end.at_us for end in run.exits.values()), default=0)
    if found.reason == REQUEUED:
        rested_us = (run.begun_us or ended_us) + REQUEUED_APART_US
        return Again(reason=REQUEUED, rests_until_us=rested_us if rested_us > ended_us else 0)
    if not is_counted(job, found.reason):
        return Again(reason=found.reason)
    rest_us = job.retry.rest_us(job.tries + 1)
    told = Again(reason=found.reason, rests_until_us=ended_us + rest_us if rest_us else 0)
    worker = run.worker(found.rank)
    if worker is None or found.reason != OUT_OF_MEMORY:
        return told
    kinds = job.gang.by_role()[worker.role].accelerators
    mine = {share.device for share in worker.devices}
    node = state.nodes.get(worker.node)
    had = [device for device in node.devices if device.device in mine] if node else []
    milli = sum(share.milli for share in worker.devices)
    outgrown = tuple(
        kind
        for kind in kinds
        if kind.milli <= milli and any(is_kind(device, kind) for device in had)
    )
    if len(outgrown) == len(kinds):
        return told
    return msgspec.structs.replace(told, role=worker.role, outgrown=outgrown)


def _how(job: Job, run: Run) -> Ending:
    bad = [(rank, end) for rank, end in deciding(job, run) if not end.clean]
    if not bad:
        return Ending(outcome="succeeded")
    first = bad[0][0]
    if job.cancelling:
        return Ending(outcome="cancelled", reason=job.cancelling, rank=first)
    if any(end.reason == REQUEUED for _, end in bad) and run.evicted in ("", TIMEOUT):
        return Ending(outcome="failed", reason=REQUEUED, rank=first)
    timed_out = any(end.exit_code == EXIT_TIMEOUT for _, end in bad[:1])
    if run.evicted == TIMEOUT or (job.max_duration_us and timed_out):
        return Ending(outcome="failed", reason=TIMEOUT, rank=first)
    if run.evicted in (*FOR_OTHERS, *LEAVES):
        return Ending(outcome="again", reason=run.evicted, rank=first)
    if run.faulty[0]:
        return Ending(outcome="failed", reason=DEVICE_FAULTY, rank=first)
    # What went wrong by itself tells more than what was stopped because of it.
    for reason, name in REASONS:
        so = [(rank, end) for rank, end in bad if end.reason == reason]
        if so:
            return Ending(outcome="failed", reason=name, rank=_first(so))
    return Ending(outcome="failed", reason="error", rank=first)


def _first(ends: list[tuple[int, Exit]]) -> int:
    """Of ends in the order recorded, the rank of the first: of those that came together by the
    clocks of their nodes, for what a network does to the order of reports says nothing.
    """
    recorded_us = ends[0][1].at_us
    together = [
        (end.node_us, number, rank)
        for number, (rank, end) in enumerate(ends)
        if end.at_us <= recorded_us + CLOCKS_AGREE_US
    ]
    return min(together)[2]


def is_counted(job: Job, reason: str) -> bool:
    """Whether an attempt that ended so is one of those that the job may have."""
    return CAUSES.get(reason, "") in job.retry.on
