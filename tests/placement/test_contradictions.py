"""Events that contradict themselves, straight in placement's log: it goes on deciding."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import GangPlaced
from headrace.events.nodes import Device
from headrace.events.performance import PerformanceMeasured
from headrace.events.pools import Pool, PoolConfigured
from headrace.events.queues import Allowance
from headrace.placement.decide import DECIDER
from headrace.placement.explain_rules import explain

from .conftest import GB, SECOND_US, History


def mostly(sane, *odd):
    """The sane value more often than not."""
    return st.sampled_from((*(sane,) * (6 * len(odd)), *odd))


queues = st.tuples(
    st.just("queue"),
    st.sampled_from(("top", "default")),
    st.fixed_dictionaries(
        {
            "parent": mostly("", "top", "default", "nobody"),
            "kind": mostly("project", "department", "club"),
            "quota_milli": mostly(-1, -7000, 0, 900_000),
            "limit_milli": mostly(-1, -7000, 0),
            "weight": mostly(1, -3, 0),
            "evictions_max": mostly(0, -2, 1),
            "evictions_per_us": mostly(0, -2, 10**15),
            "reclaim_after_us": mostly(-1, -9, 10**15),
            "user_max_milli": mostly(-1, -9, 0),
            "users_equal": st.booleans(),
            "per_type": mostly({}, {"H100": Allowance(quota_milli=-5, limit_milli=-9)}),
            "per_pool": mostly({}, {"gone": Allowance(quota_milli=9, limit_milli=0)}),
        }
    ),
)
kinds = st.builds(
    Accelerator,
    milli=mostly(1000, -1000, 0, 300, 1500, 9000),
    model=mostly("", "H100", "H999"),
    memory_bytes_min=mostly(0, -GB, 900 * GB),
    memory_bytes_max=mostly(0, -GB, GB),
    profile=mostly("", "1g.10gb", "9g.999gb"),
)
jobs = st.tuples(
    st.just("job"),
    st.builds(
        Gang,
        nodes=mostly(1, 2, 0, -1),
        nodes_max=mostly(0, -1, 1),
        accelerators=st.lists(kinds, max_size=2).map(tuple),
        gpu_memory_bytes=mostly(0, -GB, 20 * GB, 900 * GB),
        cpu_milli=mostly(0, -1000, 1000),
        memory_bytes=mostly(0, -GB),
        pools=mostly((), ("train",), ("gone",), ("train", "train")),
        topology_required=mostly("", "rack", "orbit"),
        topology_preferred=mostly("", "rack", "orbit"),
        by_price=st.booleans(),
    ),
)
nodes = st.tuples(
    st.just("node"), st.sampled_from(("n1", "n2")), mostly(2, 0), mostly("", "1g.10gb"),
    mostly(8000, 0, -8000),
)  # fmt: skip
pools = st.tuples(
    st.just("pool"),
    st.builds(
        Pool,
        pool=mostly("train", "spot"),
        label=st.just("pool"),
        value=st.sampled_from(("train", "")),
        topology=mostly(("rack",), (), ("rack", "rack")),
        prices=mostly({"H100": 1}, {"": -5, "H100": -1}, {"H999": 10**15}),
        placement=mostly("binpack", "everywhere"),
    ),
)
moves = st.lists(st.one_of(jobs, jobs, queues, nodes, pools), min_size=1, max_size=15)


def play(history, number, move):
    if move[0] == "queue":
        _, name, fields = move
        history.queue(name, **fields)
    elif move[0] == "job":
        history.job(f"j{number}", gang=move[1], priority=number)
    elif move[0] == "pool":
        history.given(PoolConfigured(name=move[1].pool, pool=move[1], change="created"))
    else:
        _, name, gpus, profile, cpu_milli = move
        devices = tuple(
            Device(device=f"{name}-gpu{i}", index=i, model="H100-80GB", memory_bytes=80 * GB,
                   profile=profile)
            for i in range(gpus)
        )  # fmt: skip
        history.node(name, devices=devices, cpu_milli=cpu_milli, labels={"pool": "train"})


def measured(number):
    return PerformanceMeasured(
        job="j", project="default", attempt=-1, model="", nodes=-1, gpus=number - 1,
        step_time_us=-number, samples=0,
    )  # fmt: skip


def check(history):
    booked = Counter()
    for job in history.state.jobs.values():
        for worker in job.run.workers if job.run is not None else ():
            booked.update({share.device: share.milli for share in worker.devices})
    assert all(0 < milli <= 1000 for milli in booked.values())
    for entry in history.entries:
        if isinstance(entry.event, GangPlaced):
            assert min(entry.event.milli, entry.event.cpu_milli, entry.event.memory_bytes) >= 0
            assert entry.event.workers


@given(played=moves)
@settings(max_examples=100, deadline=None)
def test_placement_goes_on_deciding_and_gives_nothing_twice(played):
    history = History()
    history.queue("default")
    history.node("n1", gpus=2, labels={"pool": "train"})
    for number, move in enumerate(played):
        play(history, number, move)
        history.given(measured(number))
        history.settled()
        history.now_us += 400 * SECOND_US
        history.settled()
        DECIDER.wakeup(history.state)
        check(history)
        for job in history.state.jobs:
            explain(history.state, job, history.now_us)
