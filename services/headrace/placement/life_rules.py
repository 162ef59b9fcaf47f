"""What a live job's reports and wishes lead to: started, stopped, released, finished.

Rule: devices are given back on proof that every worker has gone, and only then does a job end or
wait again. `is_due` says whether there is something to decide; `evolve` asks it after each change.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.decider import Draft
from headrace.events import Decision
from headrace.events.gangs import Act, GangEvicted, GangShrunk
from headrace.events.jobs import JobFinished, JobStarted
from headrace.placement import pause_rules
from headrace.placement.end_rules import DEVICE_FAULTY, TIMEOUT, Ending, ending
from headrace.placement.end_rules import again as again_after
from headrace.placement.release_rules import (
    dispensable,
    has_succeeded,
    released,
    released_early,
)
from headrace.placement.runs import Run
from headrace.placement.state import Group, Job, State

CANCELLED, NOW = "cancelled", "now"
FINISHED = "finished"  # why workers are to stop for which nothing is left to do


def is_due(job: Job) -> bool:
    """Whether the job's life needs a decision now."""
    run = job.run
    if run is None:
        return bool(job.cancelling) or pause_rules.is_due(job)
    if run.gone or _begins(run):
        return True
    if run.evicted:
        return _is_asked_in_vain(job, run)
    if job.cancelling or run.faulty[0] or _overran(run):
        return True
    return (bool(run.exits) and _is_short(job, run)) or pause_rules.is_due(job)


def decide_lives(state: State, limit: int) -> Iterator[Draft]:
    """The decisions of the jobs that are due, of no further one once there are `limit`."""
    decided = 0
    for job_id in list(state.due):
        if decided >= limit:
            return
        for draft in _life(state, job_id, state.jobs[job_id]):
            decided += 1
            yield draft


def decide_groups(state: State, limit: int) -> Iterator[Draft]:
    """The ends of groups whose tasks have all ended."""
    for group_id in list(state.groups_due)[:limit]:
        group = state.groups[group_id]
        if not group.live:
            yield Draft(event=_group_end(group_id, group), traceparent=group.traceparent)


def evict(job_id: str, job: Job, run: Run, reason: str, act: Act, *, gainer: str = "") -> Decision:
    """The attempt is to stop."""
    return GangEvicted(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        reason=reason,
        gainer=gainer,
        act=act,
    )


def shrink(
    job_id: str,
    job: Job,
    run: Run,
    which: tuple[tuple[int, ...], str],
    act: Act,
    *,
    gainer: str = "",
) -> Decision:
    """These ranks of the attempt are to stop, for that reason."""
    ranks, reason = which
    return GangShrunk(
        job=job_id,
        project=job.project,
        attempt=run.attempt,
        ranks=tuple(sorted(ranks)),
        reason=reason,
        gainer=gainer,
        act=act,
    )


def _life(state: State, job_id: str, job: Job) -> Iterator[Draft]:
    run = job.run
    if run is None and not job.cancelling:
        yield from pause_rules.decide_pause(state, job_id, job)
        return
    if run is None:
        end = _finish(job_id, job, None, Ending(outcome="cancelled", reason=job.cancelling))
        yield _draft(job, end, job.cancelled_at)
        return
    if _begins(run):
        waited_us = max(0, _begun_us(run) - job.admitted_us)
        begun = JobStarted(
            job=job_id, project=job.project, attempt=run.attempt, waited_us=waited_us
        )
        yield _draft(job, begun, run.cause)
    if run.gone:
        yield from _released(state, job_id, job, run)
    elif _is_asked_in_vain(job, run):
        at_once = evict(job_id, job, run, run.evicted, Act(rule=NOW))
        yield _draft(job, at_once, job.cancelled_at)
    elif not run.evicted and (stopped := _stopped(job_id, job, run)) is not None:
        yield _draft(job, stopped, job.cancelled_at if job.cancelling else run.cause)
    elif not run.evicted:
        for event in released_early(job_id, job, run):
            yield _draft(job, event, run.cause)
        if late := _late(run):
            act = Act(rule=FINISHED, numbers={"workers": len(late)})
            yield _draft(job, shrink(job_id, job, run, (late, FINISHED), act), run.cause)
        elif not _begins(run) and pause_rules.is_due(job):
            yield from pause_rules.decide_pause(state, job_id, job)


def _stopped(job_id: str, job: Job, run: Run) -> Decision | None:
    """The end of an attempt that must stop, for the first reason that there is; None: it need not.
    Only what follows from its own workers' ends does not ask it to save itself.
    """
    if job.cancelling:
        end = evict if job.cancelled_now else pause_rules.ended
        return end(job_id, job, run, CANCELLED, Act(rule=job.cancelling))
    if run.faulty[0]:
        device, why = run.faulty
        act = Act(rule=DEVICE_FAULTY, names={"device": device, "why": why})
        return pause_rules.ended(job_id, job, run, DEVICE_FAULTY, act)
    if _overran(run):
        numbers = {"max_duration_us": job.max_duration_us, "ran_us": run.overran_us}
        act = Act(rule="max-duration", numbers=numbers)
        return pause_rules.ended(job_id, job, run, TIMEOUT, act)
    if has_succeeded(job, run):
        act = Act(rule="succeeds-when", names={"role": job.gang.succeeds_when})
        return evict(job_id, job, run, FINISHED, act)
    if (rank := _failing(job, run)) is not None:
        numbers = {"rank": rank, "exit_code": run.exits[rank].exit_code}
        return evict(job_id, job, run, "worker-failed", Act(rule="worker-failed", numbers=numbers))
    return None


def _released(state: State, job_id: str, job: Job, run: Run) -> Iterator[Draft]:
    found = ending(state, job, run)
    again = again_after(state, job, run, found) if found.outcome == "again" else None
    for event in released(job_id, job, run, again=again):
        yield _draft(job, event, run.cause)
    if again is None:
        yield _draft(job, _finish(job_id, job, run, found), run.cause)
    elif job.pausing:
        ended_us = max(end.at_us for end in run.exits.values())
        worked_us = max(0, ended_us - _begun_us(run) - run.rested_us)
        yield _draft(job, pause_rules.paused_by_end(job_id, job, run, worked_us), run.cause)


def _finish(job_id: str, job: Job, run: Run | None, found: Ending) -> JobFinished:
    end = run.exits.get(found.rank) if run is not None else None
    worker = run.worker(found.rank) if run is not None else None
    begun_us = _begun_us(run) if run is not None else 0
    ended_us = max(e.at_us for e in run.exits.values()) if run is not None else 0
    waited_us, why = job.waited_us, job.cancel_message if found.outcome == "cancelled" else ""
    if waited_us < 0:
        waited_us = max(0, begun_us - job.admitted_us)
    return JobFinished(
        job=job_id,
        project=job.project,
        outcome=found.outcome,
        attempt=run.attempt if run is not None else job.attempt,
        reason=found.reason,
        message=why or (end.message if end is not None else ""),
        exit_code=end.exit_code if end is not None else 0,
        waited_us=waited_us,
        ran_us=max(0, ended_us - begun_us - (run.rested_us if run is not None else 0)),
        rank=worker.rank if worker is not None else 0,
        node=worker.node if worker is not None else "",
        process=end.process if end is not None else -1,
    )


def _begun_us(run: Run) -> int:
    """When every worker it began with ran; when it was placed, if they never did."""
    if run.begun_us:
        return run.begun_us
    if len(run.started) == len(run.workers):
        return max(run.started.values())
    return run.placed_us


def _group_end(group_id: str, group: Group) -> JobFinished:
    is_cut = group.cancelled or (group.cancelling and not group.succeeded)
    outcome = "failed" if group.failed else "cancelled" if is_cut else "succeeded"
    reason = "error" if group.failed else "cancelled" if is_cut else ""
    if group.cancelling == "stop-after-failures" or group.cancel_message:
        reason = group.cancelling
    counts = f"{group.succeeded} succeeded, {group.failed} failed, {group.cancelled} cancelled"
    first = f"; first failed: {group.first_failure}" if group.first_failure else ""
    return JobFinished(
        job=group_id,
        project=group.project,
        outcome=outcome,
        reason=reason,
        message=group.cancel_message or counts + first,
        exit_code=group.exit_code,
        waited_us=max(0, group.waited_us),
        ran_us=max(0, group.ended_us - group.begun_us) if group.begun_us else 0,
    )


def _begins(run: Run) -> bool:
    return not run.begun_us and len(run.started) == len(run.workers)


def _is_asked_in_vain(job: Job, run: Run) -> bool:
    """Whether it saves itself at its end, and somebody wants it ended now."""
    return job.cancelled_now and bool(job.cancelling) and run.way == pause_rules.SIGNAL


def _overran(run: Run) -> bool:
    """Whether it has run for too long; the time of what has left its devices stands still."""
    return bool(run.overran_us) and run.booked


def _is_short(job: Job, run: Run) -> bool:
    """Whether something follows from who has gone of an attempt that runs."""
    if has_succeeded(job, run) or _failing(job, run) is not None:
        return True
    return bool(dispensable(job, run)) or bool(_late(run))


def _failing(job: Job, run: Run) -> int | None:
    """The rank of a worker that has gone and leaves the others without it."""
    without = dispensable(job, run)
    exits = run.exits.items()
    return next((rank for rank, end in exits if not end.clean and rank not in without), None)


def _late(run: Run) -> tuple[int, ...]:
    """Who came later and has not started when others come to their end: there is nothing to join."""
    if not any(run.exits[rank].clean for rank in run.exits if rank not in run.leaving):
        return ()
    known = {*run.started, *run.exits, *run.leaving}
    return tuple(rank for rank in sorted(run.grants) if rank not in known)


def _draft(job: Job, event: Decision, causation: int) -> Draft:
    return Draft(event=event, causation=causation, traceparent=job.traceparent)
