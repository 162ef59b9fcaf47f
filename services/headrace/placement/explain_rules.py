"""Why a job is where it is: asked at any position, decided on by nobody.

Rule: pure; the same state, job and time give the same line.
"""

from __future__ import annotations

import msgspec

from headrace.placement.account_rules import is_selective, lack_of
from headrace.placement.derived import index_of
from headrace.placement.end_rules import DEVICE_FAULTY
from headrace.placement.following import world_at
from headrace.placement.kept import takes_part
from headrace.placement.modelling import gang_of
from headrace.placement.reservation_rules import reserved_in
from headrace.placement.runs import Run
from headrace.placement.state import Job, State
from headrace.scheduling.exclusions import ELSEWHERE, TAINTED
from headrace.scheduling.explain import why_waiting
from headrace.scheduling.explanation import Explanation
from headrace.scheduling.gangs import Gang
from headrace.scheduling.world import World

NAMED_MAX = 5  # jobs named in one line


def explain(state: State, job_id: str, now_us: int) -> Explanation | None:
    """Why the job waits, or what it does; None when it is not (or no longer) there."""
    job = state.jobs.get(job_id)
    if job is None:
        return None
    found = _explained(state, job_id, job, now_us)
    return msgspec.structs.replace(found, job=job_id, project=job.project, at_us=now_us)


def _explained(state: State, job_id: str, job: Job, now_us: int) -> Explanation:
    waited = {"waited_us": max(0, now_us - job.admitted_us)}
    if job.run is not None and (job.run.booked or job.run.evicted):
        return _placed(state, job, waited)
    if job.pausing:
        text = f"is paused ({job.paused or 'about to'}); headrace resume {job_id} lets it go on"
        return Explanation(rule="paused", text=text, numbers=waited)
    if job.run is not None and job.eligible and not takes_part(state, job):
        return _bound(job.run, "the GPUs it had", waited)
    if job.doubted:
        where = ", ".join(name for name, machine in state.machines.items() if machine.apart)
        text = "the log was restored, and an attempt that it does not know may run: "
        text += f"waits for what {where or 'the nodes'} say" if where else "headrace node list"
        return Explanation(rule="doubted", text=text, numbers=waited, names={"nodes": where})
    if not job.eligible:
        text = job.held or "waits to be let in"
        return Explanation(rule="held", text=text, numbers=waited)
    if job.rests_until_us:
        left_s = -(-max(0, job.rests_until_us - now_us) // 1_000_000)
        tried = f"attempt {job.attempt} ended ({job.reason})"
        text = f"{tried}; tried again in {left_s} s, {job.tries} of {job.retry.attempts} used up"
        return Explanation(rule="rests", text=text, numbers=waited)
    if job.run is None and (lack := lack_of(state, job)):
        return Explanation(rule="no-account", text=f"waits for an account: {lack}", numbers=waited)
    return _competing(state, job_id, job, now_us)


def _competing(state: State, job_id: str, job: Job, now_us: int) -> Explanation:
    """Why it has no places yet, beside others who want some."""
    waited = {"waited_us": max(0, now_us - job.admitted_us)}
    world = world_at(state, now_us)
    gang = world.gangs.get(job_id) or gang_of(state, job_id, job)
    found = _naming_volumes(state, job, _unless_reserved(state, world, gang))
    found = _naming_selective(state, found)
    if (
        job.run is not None and found.rule == "no-such-gpu"
    ):  # each of its workers has one node alone
        found = _bound(job.run, "free GPUs", found.numbers)
    stopping = [j for j in sorted(index_of(state).stopping) if _gainer(state, j) == job_id]
    if job.gaining and stopping:
        names = ", ".join(stopping[:NAMED_MAX])
        return Explanation(
            rule="stopping",
            text=f"waits for {names} to stop for it",
            numbers=found.numbers | waited,
            names={"stopping": names},
        )
    by_us = job.reserved.at_us if job.reserved is not None else 0
    starts_by_us = by_us if by_us > now_us else 0
    numbers = found.numbers | waited
    found = msgspec.structs.replace(found, numbers=numbers, starts_by_us=starts_by_us)
    ahead = _ahead(state, job_id)
    if found.rule != "next" or not ahead:
        return found
    text = f"fits; {ahead} comes first"
    return msgspec.structs.replace(found, text=text, names={"behind": ahead})


def _bound(run: Run, what: str, numbers: dict[str, int]) -> Explanation:
    """It goes on where what it did is kept, or nowhere."""
    where = ", ".join(dict.fromkeys(worker.node for worker in run.workers))
    text = f"waits for {what} on {where}: what it did is kept there"
    return Explanation(rule="bound", text=text, numbers=numbers, names={"nodes": where})


def _naming_volumes(state: State, job: Job, found: Explanation) -> Explanation:
    """With the volumes that keep it from nodes, which the scheduling core knows as labels only."""
    excluded, beyond = dict(found.excluded), set[str]()
    for name in job.gang.volumes:
        volume = state.volumes.get(name)
        if volume is None or not volume.label or ELSEWHERE not in found.excluded:
            continue
        said = {node: state.machines[node].said.labels for node in state.machines}
        without = {node for node in said if said[node].get(volume.label) != volume.value}
        if without:
            excluded[f"not at volume {name} ({volume.label}={volume.value})"] = len(without)
            beyond |= without
    left = excluded.pop(ELSEWHERE, 0) - len(beyond)
    others = {ELSEWHERE: left} if left > 0 else {}
    return msgspec.structs.replace(found, excluded=excluded | others)


def _naming_selective(state: State, found: Explanation) -> Explanation:
    """With the nodes that cannot isolate this user's jobs, and what lets them run there."""
    if TAINTED not in found.excluded:
        return found
    said = (state.machines[name].said for name in sorted(state.machines))
    selective = [node for node in said if is_selective(node)]
    if not selective:
        return found
    excluded = dict(found.excluded)
    count = excluded.pop(TAINTED)
    whose = ", ".join(dict.fromkeys(node.trusted or "nobody" for node in selective[:NAMED_MAX]))
    excluded[f"isolate no jobs and run only those of {whose}"] = count
    names = ", ".join(node.node for node in selective[:NAMED_MAX])
    text = (
        f"{found.text}; {names} cannot isolate jobs from the platform's keys and from each other: "
        "its administrator starts it as root or where user namespaces are allowed, or lets "
        "everybody's jobs run there all the same (headrace up --trust-everybody)"
    )
    return msgspec.structs.replace(found, text=text, excluded=excluded)


def _unless_reserved(state: State, world: World, gang: Gang) -> Explanation:
    """Why the gang waits; others may have been promised what is free."""
    found = why_waiting(world, gang)
    reserved = reserved_in(state)
    if found.rule != "next" or not reserved:
        return found
    mark = world.mark()
    world.reserve_for(reserved)
    fits = why_waiting(world, gang).rule == "next"
    world.back_to(mark)
    if fits:
        return found
    others = ", ".join(sorted(name for name in reserved if name != gang.name)[:NAMED_MAX])
    text = f"would fit, but not be gone when what is free is needed for {others}"
    return Explanation(rule="reserved", text=text, numbers=found.numbers, names={"for": others})


def _placed(state: State, job: Job, waited: dict[str, int]) -> Explanation:
    run = job.run
    assert run is not None  # the caller saw it
    nodes = [worker.node for worker in run.workers]
    silent = [node for node in nodes if node in state.machines and state.machines[node].silent]
    where = ", ".join(nodes[:8])
    if run.evicted:
        why = f": {run.faulty[1]}" if run.evicted == DEVICE_FAULTY else ""
        text = f"is being stopped on {where} ({run.evicted}{why})"
    elif run.gives_back:
        text = f"leaves its GPUs on {where}"
    elif run.begun_us:
        text = f"runs on {where}{_how_many(job, run)}"
    else:
        text = f"starts on {where}"
    if silent:
        text += f"; {', '.join(silent[:8])} silent"
    return Explanation(rule="running", text=text, numbers=waited, names={"nodes": where})


def _how_many(job: Job, run: Run) -> str:
    """Of an elastic gang, how many of how many it may have."""
    if not job.is_elastic:
        return ""
    least, most, have = job.gang.nodes, job.gang.nodes_max, len(run.staying)
    leaving = sorted(rank for rank in run.leaving if rank not in run.exits)
    told = f": {have} of {least}..{most} nodes"
    reasons = ", ".join(dict.fromkeys(run.leaving[rank] for rank in leaving))
    return f"{told}, {len(leaving)} more being stopped ({reasons})" if leaving else told


def _ahead(state: State, job_id: str) -> str:
    """Who of the same project comes first."""
    mine = state.jobs[job_id]
    others = ((name, state.jobs[name]) for name in index_of(state).waiting if name != job_id)
    ahead = [
        (-job.priority, job.admitted_at, name)
        for name, job in others
        if job.project == mine.project
        and (-job.priority, job.admitted_at) < (-mine.priority, mine.admitted_at)
    ]
    return min(ahead)[-1] if ahead else ""


def _gainer(state: State, job_id: str) -> str:
    run = state.jobs[job_id].run
    return run.gainer if run is not None else ""
