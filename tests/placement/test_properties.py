"""What holds in every history, whatever arrives in whatever order."""

from collections import Counter

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.decider import fold
from headrace.events.gangs import GangEvicted, GangPlaced, GangReleased, GuardTripped
from headrace.events.guards import guards_of
from headrace.events.jobs import JobFinished, JobHeld
from headrace.events.nodes import NodeChangeRequested, NodeHeard, NodeSilent
from headrace.placement.decide import DECIDER
from headrace.placement.derived import index_of
from headrace.placement.life_rules import is_due
from headrace.placement.node_rules import CHANGES
from headrace.scheduling.tree import usage_of

from .conftest import History

GB = 10**9
PROJECTS = ("vision", "ads", "lab")

job_moves = st.tuples(
    st.just("job"),
    st.sampled_from(PROJECTS),
    st.sampled_from((0, 250, 500, 1000, 2000, 4000)),
    st.integers(1, 2),
    st.sampled_from((20, 40, 80)),
    st.booleans(),
)
report_moves = st.tuples(
    st.sampled_from(("start", "exit", "fail", "lose", "stop", "cancel", "hold", "late")),
    st.integers(0, 60),
)
node_moves = st.tuples(
    st.sampled_from(("silent", "heard", "reboot", "shrink", "trip", *CHANGES)),
    st.sampled_from(("n1", "n2")),
)
queue_moves = st.tuples(
    st.just("queue"), st.sampled_from(PROJECTS), st.sampled_from((0, 2000, 4000)),
    st.sampled_from((-1, 4000, 6000)),
)  # fmt: skip
moves = st.lists(
    st.one_of(job_moves, job_moves, report_moves, report_moves, node_moves, queue_moves),
    max_size=60,
)


def begin():
    history = History()
    history.node("n1", gpus=4)
    history.node("n2", gpus=4)
    history.queue("top", kind="department", quota_milli=-1)
    history.queue("vision", parent="top", quota_milli=4000)
    history.queue("ads", parent="top", quota_milli=2000, limit_milli=6000)
    history.queue("lab", weight=2)
    history.job("wide", project="lab", nodes=2)
    for number in range(4):  # a full fleet, most of it above quota
        history.job(f"ads{number}", project="ads", priority=(20, 40)[number % 2])
        history.job(f"lab{number}", project="lab")
    history.settled()
    return history


def play(history, move):
    kind = move[0]
    if kind == "job":
        _, project, milli, nodes, priority, preemptible = move
        name = f"j{len(history.entries)}"
        history.job(
            name, project=project, gpus=milli, nodes=nodes, priority=priority,
            preemptible=preemptible,
        )  # fmt: skip
    elif kind == "queue":
        _, project, quota, limit = move
        history.queue(project, quota_milli=quota, limit_milli=limit)
    elif kind in ("silent", "heard"):
        history.given((NodeSilent if kind == "silent" else NodeHeard)(node=move[1]))
    elif kind == "reboot":
        history.node(move[1], gpus=4, boot=f"boot-{len(history.entries)}")
    elif kind == "shrink":
        history.node(move[1], gpus=2)
    elif kind == "trip":
        history.given(GuardTripped(device=f"{move[1]}-gpu1", job="", attempt=0))
    elif kind in CHANGES:
        history.given(NodeChangeRequested(node=move[1], change=kind))
    else:
        report(history, kind, move[1])


def report(history, kind, number):
    if not history.state.jobs:
        return
    name = list(history.state.jobs)[number % len(history.state.jobs)]
    job = history.state.jobs[name]
    if kind == "cancel":
        history.cancel(name, project=job.project)
    elif kind == "hold":
        history.given(JobHeld(job=name, project=job.project, reason="held"))
    elif job.attempt == 0:
        return
    elif kind == "start":
        history.starts(name)
    elif kind == "exit":
        history.exits(name)
    elif kind == "fail":
        history.exits(name, ranks=[0], exit_code=1)
    elif kind == "late":
        history.exits(name, attempt=max(1, job.attempt - 1))
    else:
        history.exits(name, reason="lost" if kind == "lose" else "stopped", exit_code=143)


def book(booked, event):
    for guard in guards_of(event):
        booked[guard.key] += guard.delta


def check_turn(history, before, events):
    """A turn's decisions, one after the other, against the state they were made on."""
    held = Counter({name: usage.milli for name, usage in before.usage.items()})
    for job in before.jobs.values():  # a turn places and promises before it takes back
        if job.waiting:
            held[job.project] += sum(kind.milli for kind in job.gang.accelerators) * job.gang.nodes
    for event in events:
        if isinstance(event, GangPlaced):
            job = before.jobs[event.job]
            assert job.run is None
            assert event.attempt == job.attempt + 1
            assert len(event.workers) == job.gang.nodes
            assert len({worker.node for worker in event.workers}) == job.gang.nodes
            assert all(before.nodes[worker.node].accepting for worker in event.workers)
            wanted = sum(kind.milli for kind in job.gang.accelerators)
            for worker in event.workers:
                assert sum(share.milli for share in worker.devices) == wanted
        elif isinstance(event, GangEvicted) and event.gainer:
            loser, gainer = before.jobs[event.job], before.jobs[event.gainer]
            assert loser.preemptible
            assert event.job not in [e.job for e in events if isinstance(e, GangPlaced)]
            check_eviction(before, event.reason, loser, gainer, held)
        elif isinstance(event, GangReleased):
            run = before.jobs[event.job].run
            assert set(run.exits) == {worker.rank for worker in run.workers}


def check_eviction(before, reason, loser, gainer, held):
    if reason == "reclaimed":
        queue = before.queues[loser.project]
        quota = 10**9 if queue.quota_milli == -1 else queue.quota_milli
        assert loser.project != gainer.project
        assert held[loser.project] > quota
        held[loser.project] -= loser.run.milli
    elif reason == "preempted":
        assert loser.project == gainer.project
        assert loser.priority < gainer.priority
    else:
        assert reason == "moved"


def check_limits(history, before, after):
    for name, queue in after.queues.items():
        used = after.usage[name]
        grew = used.milli > before.usage[name].milli
        assert used.milli >= 0
        if grew and queue.limit_milli != -1:
            assert used.milli <= queue.limit_milli
        if used.firm_milli > before.usage[name].firm_milli and queue.quota_milli != -1:
            assert used.firm_milli <= queue.quota_milli


def check_state(state):
    holdings = [
        (job.project, job.run.milli, not job.preemptible)
        for job in state.jobs.values()
        if job.run is not None
    ]
    assert state.usage == usage_of(state.queues, holdings)
    assert set(state.due) == {name for name, job in state.jobs.items() if is_due(job)}
    assert set(index_of(state).waiting) == {n for n, job in state.jobs.items() if job.waiting}


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(moves, st.sets(st.integers(0, 60)))
def test_every_history_keeps_its_promises_and_any_cut_gives_the_same(played, cuts):
    history, twin = begin(), begin()
    ended, booked = set(), Counter()
    for entry in history.entries:
        book(booked, entry.event)
    for number, move in enumerate(played):
        play(history, move)
        play(twin, move)
        if number in cuts:
            twin.cut()
        before = msgspec.convert(msgspec.to_builtins(history.state), DECIDER.state)
        events = history.decided()
        assert twin.decided() == events
        check_turn(history, before, events)
        check_limits(history, before, history.state)
        for event in events:
            book(booked, event)
            if isinstance(event, JobFinished):
                assert event.job not in ended
                ended.add(event.job)
        assert all(0 <= milli <= 1000 for milli in booked.values())
        check_state(history.state)
    assert msgspec.json.encode(history.state) == msgspec.json.encode(twin.state)
    again = fold(DECIDER, DECIDER.initial(), history.entries)
    assert msgspec.json.encode(again) == msgspec.json.encode(history.state)


@settings(max_examples=60, deadline=None)
@given(moves)
def test_once_everything_has_ended_nothing_is_booked_and_nobody_waits_without_a_reason(played):
    history = begin()
    for move in played:
        play(history, move)
    history.settled(turns=200)
    for node in ("n1", "n2"):
        history.given(NodeHeard(node=node))
        history.given(NodeChangeRequested(node=node, change="uncordon"))
        history.node(node, gpus=4)
    for _ in range(200):
        history.settled(turns=200)
        live = [name for name, job in history.state.jobs.items() if job.run is not None]
        if not live:
            break
        history.exits(live[0])
    assert not [j for j in history.state.jobs.values() if j.run is not None]
    assert all(d.used_milli == 0 for n in history.state.nodes.values() for d in n.devices)
    assert not any(usage.milli for usage in history.state.usage.values())
    assert not any(ports for ports in history.state.ports.values())
