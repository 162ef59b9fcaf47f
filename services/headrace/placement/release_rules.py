"""What is given back when workers have gone: of an elastic gang one by one, else of all at once.

Rule: what was booked together is given back together or in pieces, but never with what was booked at
another time: so each piece's thousandths times its time is what it used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from headrace.events.asked import Accelerator
from headrace.events.gangs import GangReleased, Worker, WorkersReleased
from headrace.placement.runs import Exit, Run, summed
from headrace.placement.state import Job

NODE_LOST = "node-lost"
ENDED = "ended"

LOST = ("lost", "stopped")  # how a worker ends with its machine or by somebody else than us


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """How the job is tried again: when it has rested, and without which kinds of GPUs in a role."""

    reason: str
    rests_until_us: int = 0
    role: str = ""
    outgrown: tuple[Accelerator, ...] = ()


_Piece = tuple[int, str]  # booked at, why it goes


def dispensable(job: Job, run: Run) -> list[int]:
    """Who has gone from an elastic gang that goes on without: those that were told to leave or lost
    their machine while enough are left, and who came too late to be of use.
    """
    found = [rank for rank in run.exits if rank in run.leaving]
    if not job.is_elastic or run.evicted or not job.is_enough(run.sound):
        return found
    first = run.exits.get(0)
    ends = first is not None and first.clean
    for rank, end in run.exits.items():
        excused = end.reason in LOST or (ends and rank in run.grants)
        if rank and rank not in run.leaving and not end.clean and excused:
            found.append(rank)
    return found


def released_early(job_id: str, job: Job, run: Run) -> Iterator[WorkersReleased]:
    """Those that an elastic gang goes on without are given back."""
    pieces: dict[_Piece, list[int]] = {}
    for rank in sorted(dispensable(job, run)):
        reason = run.leaving.get(rank, NODE_LOST)
        pieces.setdefault((run.booked_us(rank), reason), []).append(rank)
    for (booked_us, reason), ranks in pieces.items():
        ended_us = max(run.exits[rank].at_us for rank in ranks)
        yield _piece(job_id, job, run, (ranks, reason, ended_us - booked_us))


def released(
    job_id: str, job: Job, run: Run, *, again: Again | None = None
) -> Iterator[WorkersReleased | GangReleased]:
    """All of the attempt is given back: what came later first, then what it began with."""
    ended_us = max(end.at_us for end in run.exits.values())
    later: dict[int, list[int]] = {}
    for rank in sorted(run.grants):
        later.setdefault(run.booked_us(rank), []).append(rank)
    for booked_us, ranks in later.items():
        yield _piece(job_id, job, run, (ranks, ENDED, ended_us - booked_us))
    first = [worker for worker in run.workers if worker.rank not in run.grants and run.booked]
    yield GangReleased(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        shares=summed(first),
        milli=_milli(first),
        held_us=max(0, ended_us - run.since_us) if run.booked else 0,
        again=again is not None,
        reason=again.reason if again is not None else "",
        rests_until_us=again.rests_until_us if again is not None else 0,
        outgrown_role=again.role if again is not None else "",
        outgrown=again.outgrown if again is not None else (),
    )


def deciding(job: Job, run: Run) -> list[tuple[int, Exit]]:
    """The ends that tell how the attempt went, with their ranks, in the order recorded."""
    without = dispensable(job, run)
    if has_succeeded(job, run):
        without += [worker.rank for worker in run.workers if worker.role != job.gang.succeeds_when]
    return [(rank, end) for rank, end in run.exits.items() if rank not in without]


def has_succeeded(job: Job, run: Run) -> bool:
    """Whether every worker of the role that counts has come to its own end and said all was well,
    so that nothing is left for the others to do.
    """
    role = job.gang.succeeds_when
    if not role or not run.exits:
        return False
    without = dispensable(job, run)
    counts = [w.rank for w in run.workers if w.role == role and w.rank not in without]
    ends = [run.exits.get(rank) for rank in counts]
    return bool(ends) and all(end is not None and end.clean for end in ends)


def _piece(job_id: str, job: Job, run: Run, gone: tuple[list[int], str, int]) -> WorkersReleased:
    ranks, reason, held_us = gone
    workers = [worker for worker in run.workers if worker.rank in ranks]
    return WorkersReleased(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        ranks=tuple(ranks),
        reason=reason,
        shares=summed(workers),
        milli=_milli(workers),
        held_us=max(0, held_us),
    )


def _milli(workers: Iterable[Worker]) -> int:
    return sum(share.milli for worker in workers for share in worker.devices)
