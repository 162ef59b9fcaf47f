"""Limits and quotas of one GPU type and one pool, while jobs run."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import GangEvicted, GangPlaced, GuardTripped
from headrace.events.pools import Pool, PoolConfigured
from headrace.events.queues import Allowance
from headrace.placement.explain_rules import explain

from .conftest import History

H100, A100 = "H100-80GB", "A100-80GB"


def placements(events):
    return [event.job for event in events if isinstance(event, GangPlaced)]


def evictions(events):
    return {event.job: event.gainer for event in events if isinstance(event, GangEvicted)}


def on(*models, gpus=1, nodes=1, pools=()):
    kinds = tuple(Accelerator(milli=gpus * 1000, model=model) for model in models)
    return Gang(nodes=nodes, accelerators=kinds, cpu_milli=1000, pools=pools)


def some(quota=0, limit=-1):
    return Allowance(quota_milli=quota * 1000, limit_milli=limit * 1000 if limit >= 0 else -1)


def fleet(gpus=4):
    """As many H100s on n1, in pool train, as A100s on n2, in pool spot."""
    history = History()
    for number, (model, pool) in enumerate(((H100, "train"), (A100, "spot")), 1):
        history.node(f"n{number}", gpus=gpus, model=model, labels={"pool": pool})
        made = Pool(pool=pool, label="pool", value=pool)
        history.given(PoolConfigured(name=pool, pool=made, change="created"))
    return history


def node_of(history, job):
    return history.placed(job).workers[0].node


def test_a_job_goes_to_its_next_kind_when_its_project_has_all_it_may_have_of_the_first():
    history = fleet()
    history.queue("vision", per_type={"H100": some(limit=2)})
    for name in ("a", "b", "c"):
        history.job(name, project="vision", gang=on("H100", "A100"))
    assert placements(history.settled()) == ["a", "b", "c"]
    assert [node_of(history, name) for name in ("a", "b", "c")] == ["n1", "n1", "n2"]


def test_a_job_waits_and_is_told_why_when_it_takes_no_other_kind():
    history = fleet()
    history.queue("vision", per_type={"H100": some(limit=2)})
    history.job("a", project="vision", gang=on("H100", gpus=2))
    history.job("b", project="vision", gang=on("H100"))
    assert placements(history.settled()) == ["a"]
    found = explain(history.state, "b", history.now_us)
    assert found.rule == "limit"
    assert found.text == "vision may hold at most 2 H100 GPUs and holds 2; this needs 1"
    history.exits("a")
    assert placements(history.settled()) == ["b"]


def test_a_limit_of_a_pool_counts_what_is_on_its_nodes():
    history = fleet()
    history.queue("vision", per_pool={"train": some(limit=2)})
    history.job("a", project="vision", gang=on("", gpus=2, pools=("train", "spot")))
    history.job("b", project="vision", gang=on("", gpus=2, pools=("train", "spot")))
    history.job("c", project="vision", gang=on("", gpus=1, pools=("train",)))
    assert placements(history.settled()) == ["a", "b"]
    assert [node_of(history, name) for name in ("a", "b")] == ["n1", "n2"]
    assert explain(history.state, "c", history.now_us).text == (
        "vision may hold at most 2 GPUs of pool train and holds 2; this needs 1"
    )


def test_what_is_being_stopped_counts_until_it_is_released():
    history = fleet(gpus=2)
    history.queue("vision", per_type={"H100": some(limit=2)})
    history.job("low", project="vision", gang=on("H100", gpus=2), priority=20)
    history.settled()
    history.node("n3", gpus=2, model=H100, labels={"pool": "train"})
    history.cancel("low", project="vision")
    history.job("high", project="vision", gang=on("H100", gpus=2), priority=80)
    assert placements(history.settled()) == []
    history.exits("low", reason="stopped", exit_code=143)
    assert placements(history.settled()) == ["high"]


def test_a_gpu_that_takes_no_work_any_more_counts_while_it_is_held():
    history = fleet()
    history.queue("vision", per_type={"H100": some(limit=1)})
    history.job("a", project="vision", gang=on("H100"))
    history.settled()
    (share,) = history.placed("a").workers[0].devices
    history.given(GuardTripped(device=share.device, job="", attempt=0))
    history.job("b", project="vision", gang=on("H100"))
    assert placements(history.settled()) == []
    assert explain(history.state, "b", history.now_us).rule == "limit"


def test_a_limit_lowered_below_what_is_held_stops_nobody():
    history = fleet()
    history.queue("vision", per_type={"H100": some(limit=4)})
    for name in ("a", "b", "c"):
        history.job(name, project="vision", gang=on("H100"))
    history.settled()
    history.queue("vision", per_type={"H100": some(limit=1)})
    history.job("d", project="vision", gang=on("H100"))
    assert history.settled() == []
    history.exits("a")
    history.exits("b")
    assert placements(history.settled()) == []
    history.exits("c")
    assert placements(history.settled()) == ["d"]


def test_a_quota_of_a_type_is_reclaimed_whatever_the_others_are_guaranteed_in_all():
    history = fleet()
    history.queue("ads", quota_milli=8000)
    history.queue("vision", per_type={"H100": some(quota=2)})
    for number in range(4):
        history.job(f"a{number}", project="ads", gang=on("H100"))
    history.settled()
    history.job("v", project="vision", gang=on("H100", gpus=2))
    events = history.settled()
    assert evictions(events) == {"a2": "v", "a3": "v"}
    act = events[0].act
    assert act.rule == "reclaim"
    assert act.names["part"] == "H100 GPUs"
    assert (act.numbers["part_held_milli"], act.numbers["gainer_part_quota_milli"]) == (4000, 2000)
    for name in ("a2", "a3"):
        history.exits(name, reason="stopped", exit_code=143)
    assert placements(history.settled()) == ["v"]
    history.job("w", project="vision", gang=on("H100"))
    assert history.settled() == []


def test_users_share_a_part_of_their_project_too():
    history = fleet()
    history.queue("lab", users_equal=True, user_max_milli=3000, per_type={"H100": some(limit=3)})
    for number in range(4):
        history.job(f"a{number}", project="lab", user="ada", gang=on("H100"))
    for number in range(4):
        history.job(f"b{number}", project="lab", user="bob", gang=on("H100", "A100"))
    history.settled()
    held = Counter()
    for name in history.state.jobs:
        if history.state.jobs[name].run is not None:
            held[history.state.jobs[name].user, node_of(history, name)] += 1
    assert held["ada", "n1"] + held["bob", "n1"] == 3
    assert held["bob", "n1"] + held["bob", "n2"] == 3


parts = st.sampled_from(({}, {"H100": some(limit=2)}, {"H100": some(1, 3)}, {"A100": some(2)}))
pooled = st.sampled_from(({}, {"train": some(limit=3)}, {"spot": some(1, 2)}))
moves = st.lists(
    st.one_of(
        st.tuples(
            st.just("job"), st.sampled_from(("ads", "vision")), st.integers(1, 3),
            st.sampled_from((("H100",), ("",), ("H100", "A100"))), st.booleans(),
        ),
        st.tuples(st.just("queue"), st.sampled_from(("ads", "vision", "top")), parts, pooled),
        st.tuples(st.sampled_from(("exit", "cancel")), st.integers(0, 40)),
    ),
    max_size=30,
)  # fmt: skip


def play(history, move):
    if move[0] == "job":
        _, project, gpus, kinds, preemptible = move
        name = f"j{len(history.entries)}"
        history.job(name, project=project, gang=on(*kinds, gpus=gpus), preemptible=preemptible)
    elif move[0] == "queue":
        _, name, per_type, per_pool = move
        parent = "" if name == "top" else "top"
        history.queue(name, parent=parent, quota_milli=4000, per_type=per_type, per_pool=per_pool)
    elif history.state.jobs:
        jobs = list(history.state.jobs)
        name = jobs[move[1] % len(jobs)]
        if move[0] == "cancel":
            history.cancel(name, project=history.state.jobs[name].project)
        elif history.state.jobs[name].run is not None:
            history.exits(name)


def held_in(state):
    """Milli-GPUs until released, by queue and part; the same of what cannot be preempted."""
    held, firm = Counter(), Counter()
    for job in state.jobs.values():
        for worker in job.run.workers if job.run is not None else ():
            part = {"n1": ("H100", "train"), "n2": ("A100", "spot")}[worker.node]
            for queue in (job.project, "top"):
                for name in part:
                    milli = sum(share.milli for share in worker.devices)
                    held[queue, name] += milli
                    firm[queue, name] += 0 if job.preemptible else milli
    return held, firm


@given(played=moves, cuts=st.sets(st.integers(0, 30)))
@settings(max_examples=60, deadline=None)
def test_no_grant_exceeds_a_limit_of_a_part_and_any_cut_decides_the_same(played, cuts):
    history, twin = fleet(), fleet()
    for each in (history, twin):
        each.queue("top", kind="department", quota_milli=-1)
        each.queue("ads", parent="top", quota_milli=4000)
        each.queue("vision", parent="top", quota_milli=4000)
    for number, move in enumerate(played):
        play(history, move)
        play(twin, move)
        if number in cuts:
            twin.cut()
        before = held_in(history.state)
        assert history.decided() == twin.decided()
        after = held_in(history.state)
        for queue in history.state.queues.values():
            for name, said in (queue.per_type | queue.per_pool).items():
                key = (queue.queue, name)
                if after[0][key] > before[0][key] and said.limit_milli >= 0:
                    assert after[0][key] <= said.limit_milli
                if after[1][key] > before[1][key] and said.quota_milli > 0:
                    assert after[1][key] <= said.quota_milli
