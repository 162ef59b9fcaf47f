"""What holds in every history, whatever arrives in whatever order."""

from collections import Counter

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.decider import fold
from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import (
    GangEvicted,
    GangGrown,
    GangPlaced,
    GangReleased,
    GangShrunk,
    GuardTripped,
    WorkersReleased,
)
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
    st.sampled_from(((1, 0), (2, 0), (1, 2), (1, 3), (2, 3))),  # nodes: at least, at most
    st.sampled_from((20, 40, 80)),
    st.sampled_from(("preemptible", "semi-preemptible", "non-preemptible")),
)
report_moves = st.tuples(
    st.sampled_from(
        ("start", "start", "exit", "fail", "lose", "stop", "part", "cancel", "hold", "late")
    ),
    st.integers(0, 60),
)
node_moves = st.tuples(
    st.sampled_from(("silent", "heard", "reboot", "shrink", "trip", *CHANGES)),
    st.sampled_from(("n1", "n2", "n3")),
)
queue_moves = st.tuples(
    st.just("queue"), st.sampled_from(PROJECTS), st.sampled_from((0, 2000, 4000)),
    st.sampled_from((-1, 4000, 6000)),
)  # fmt: skip
any_move = st.one_of(job_moves, job_moves, report_moves, report_moves, node_moves, queue_moves)
moves = st.lists(any_move, max_size=60)


def quiet():
    """Room for everybody, so that elastic gangs grow, and shrink as others come."""
    history = History()
    for number in range(4):
        history.node(f"n{number + 1}", gpus=4)
    queues(history)
    for name, project, protected in (("e1", "vision", True), ("e2", "lab", False)):
        gang = Gang(nodes=1, nodes_max=4, accelerators=(Accelerator(milli=2000),), cpu_milli=1000)
        history.job(name, project=project, gang=gang, protected_minimum=protected)
    history.settled()
    history.starts("e1")
    history.starts("e2")
    return history


def full():
    """No room for anybody."""
    history = History()
    history.node("n1", gpus=4)
    history.node("n2", gpus=4)
    history.node("n3", gpus=2)
    queues(history)
    history.job("wide", project="lab", nodes=2)
    for number in range(4):  # a full fleet, most of it above quota
        history.job(f"ads{number}", project="ads", priority=(20, 40)[number % 2])
        history.job(f"lab{number}", project="lab")
    history.settled()
    return history


def queues(history):
    history.queue("top", kind="department", quota_milli=-1)
    history.queue("vision", parent="top", quota_milli=4000)
    history.queue("ads", parent="top", quota_milli=2000, limit_milli=6000)
    history.queue("lab", weight=2)


def play(history, move):
    kind = move[0]
    if kind == "job":
        _, project, milli, (nodes, most), priority, kind = move
        name = f"j{len(history.entries)}"
        kinds = (Accelerator(milli=milli),) if milli else ()
        gang = Gang(nodes=nodes, nodes_max=most, accelerators=kinds, cpu_milli=1000)
        soft = kind == "preemptible" or (kind == "semi-preemptible" and most > nodes)
        history.job(
            name, project=project, gang=gang, priority=priority, preemptible=soft,
            protected_minimum=kind == "semi-preemptible",
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
    elif kind == "part":  # the last of its workers is lost, or has stopped as it was told to
        workers = job.run.workers if job.run is not None else ()
        history.exits(name, ranks=[w.rank for w in workers[1:]][-1:], reason="lost", exit_code=137)
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
            check_size(job.gang, event.workers)
            assert all(before.nodes[worker.node].accepting for worker in event.workers)
            wanted = sum(kind.milli for kind in job.gang.accelerators)
            for worker in event.workers:
                assert sum(share.milli for share in worker.devices) == wanted
        elif isinstance(event, GangGrown):
            job = before.jobs[event.job]
            ranks = range(job.run.ranks, job.run.ranks + len(event.workers))
            assert [w.rank for w in event.workers] == [*ranks]
            check_size(job.gang, (*job.run.staying, *event.workers))
        elif isinstance(event, GangShrunk):
            job = before.jobs[event.job]
            left = [w for w in job.run.staying if w.rank not in event.ranks]
            assert 0 in [w.rank for w in left] or 0 in job.run.exits
            if event.gainer:
                check_size(job.gang, left)
                milli = milli_of(w for w in job.run.workers if w.rank in event.ranks)
                check_eviction(before, event, milli, held)
        elif isinstance(event, GangEvicted) and event.gainer:
            job = before.jobs[event.job]
            assert job.preemptible
            assert not job.protected_minimum
            assert event.job not in [e.job for e in events if isinstance(e, GangPlaced)]
            check_eviction(before, event, job.run.milli, held)
        elif isinstance(event, WorkersReleased):
            assert set(event.ranks) <= set(before.jobs[event.job].run.exits)
        elif isinstance(event, GangReleased):
            run = before.jobs[event.job].run
            assert set(run.exits) == {worker.rank for worker in run.workers}


def milli_of(workers):
    return sum(share.milli for worker in workers for share in worker.devices)


def check_size(gang, workers):
    assert gang.nodes <= len(workers) <= max(gang.nodes, gang.nodes_max)
    assert len({worker.node for worker in workers}) == len(workers)


def check_eviction(before, event, milli, held):
    loser, gainer, reason = before.jobs[event.job], before.jobs[event.gainer], event.reason
    if reason == "reclaimed":
        queue = before.queues[loser.project]
        quota = 10**9 if queue.quota_milli == -1 else queue.quota_milli
        assert loser.project != gainer.project
        assert held[loser.project] > quota
        held[loser.project] -= milli
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
    holdings = []
    for job in state.jobs.values():
        if job.run is not None:
            assert job.run.milli == milli_of(job.run.workers)
            firm = job.gang.nodes if job.protected_minimum else 0
            firm = len(job.run.workers) if not job.preemptible else firm
            for rank, worker in enumerate(job.run.workers):
                holdings.append((job.project, milli_of([worker]), rank < firm))
    assert state.usage == usage_of(state.queues, holdings)
    assert set(index_of(state).growing) == {n for n, job in state.jobs.items() if job.growing}
    assert set(state.due) == {name for name, job in state.jobs.items() if is_due(job)}
    assert set(index_of(state).waiting) == {n for n, job in state.jobs.items() if job.waiting}


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from((full, quiet)), moves, st.sets(st.integers(0, 60)))
def test_every_history_keeps_its_promises_and_any_cut_gives_the_same(begin, played, cuts):
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
@given(st.sampled_from((full, quiet)), moves)
def test_once_everything_has_ended_nothing_is_booked_and_nobody_waits_without_a_reason(
    begin, played
):
    history = begin()
    for move in played:
        play(history, move)
    history.settled(turns=200)
    for node, gpus in (("n1", 4), ("n2", 4), ("n3", 2), ("n4", 4)):
        history.given(NodeHeard(node=node))
        history.given(NodeChangeRequested(node=node, change="uncordon"))
        history.node(node, gpus=gpus)
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
