"""Pools, topology, MIG, rations by type, and how long a job may run."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.admission.decide import DECIDER
from headrace.decider.testing import given as history_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobAdmitted
from headrace.events.nodes import Device
from headrace.events.pools import Pool, PoolConfigured
from headrace.events.queues import Allowance, Queue, QueueConfigured

from .facts import GB, decided, gang, history, node, pool, project, refusal, requested

HOUR_US = 3_600_000_000
LEVELS = ("zone", "rack", "nvlink-domain")


def mig_node(name="m1"):
    devices = tuple(
        Device(
            device=f"{name}-{i}", index=i, model="H100-80GB", memory_bytes=10 * GB,
            profile="1g.10gb",
        )
        for i in range(7)
    )  # fmt: skip
    return msgspec.structs.replace(node(name, labels={"pool": "mig"}), devices=devices)


def limited(milli):
    return Allowance(limit_milli=milli)


def test_a_job_is_tried_in_its_own_pools_else_in_its_projects():
    known = (pool(), pool("spot"), pool("build"))
    mine = project(pools={"training": ("train", "spot"), "workspace": ("build",)})
    run = history(*known, mine, requested("a-1"), requested("a-2", wants=gang(pools=("build",))))
    assert [d.event.gang.pools for d in run.turn()] == [("train", "spot"), ("build",)]


def test_a_workspace_without_an_order_of_its_own_goes_where_it_is_cheapest():
    mine = project(pools={"training": ("train",), "workspace": ("build", "spot")})
    wants = [gang(kind="workspace", pools=pools) for pools in ((), ("train",))]
    jobs = (requested(f"a-{number}", wants=one) for number, one in enumerate(wants))
    run = history(pool(), pool("spot"), pool("build"), mine, *jobs)
    found = [(d.event.gang.pools, d.event.gang.by_price) for d in run.turn()]
    assert found == [(("build", "spot"), True), (("train",), False)]


def test_a_type_that_nobody_knows_is_refused():
    run = history(project(), requested(wants=gang(kind="party")))
    assert refusal(run).startswith("refused: type = party — is not a type of job; training, ")


def test_a_project_without_pools_has_those_of_the_nearest_above():
    above = project("research", kind="department", pools={"training": ("train",)})
    run = history(pool(), above, project(parent="research"), requested())
    assert decided(run).gang.pools == ("train",)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ((), "there is no such pool; there is none yet: headrace apply -f creates pools and their levels"),
        (("train",), "there is no such pool; did you mean train?"),
        (("a", "b"), "there is no such pool; pools: a, b"),
    ],
)  # fmt: skip
def test_an_unknown_pool_is_refused_with_the_known_ones(known, said):
    run = history(*map(pool, known), requested(wants=gang(pools=("trian",))))
    assert refusal(run) == f"refused: pools = trian — {said}"


def test_an_unknown_pool_that_the_project_names_says_so():
    run = history(project(pools={"training": ("gone",)}), pool("a"), requested())
    assert refusal(run) == (
        "refused: pools = gone — there is no such pool; project vision names it for its jobs (set "
        "by apply at position 3); pools: a"
    )


@pytest.mark.parametrize(
    ("wants", "said"),
    [
        (
            gang(topology_required="racks"),
            (
                "topology.required = racks — no pool of this job has such a level (train, flat); did "
                "you mean rack?"
            ),
        ),
        (
            gang(topology_preferred="row"),
            (
                "topology.preferred = row — no pool of this job has such a level (train, flat); "
                "levels: zone, rack, nvlink-domain"
            ),
        ),
        (
            gang(topology_required="rack", pools=("flat",)),
            (
                "topology.required = rack — no pool of this job has such a level (flat); there is none "
                "yet: headrace apply -f creates pools and their levels"
            ),
        ),
        (
            gang(topology_required="rack", topology_preferred="zone"),
            "topology.preferred = zone — is wider than the required rack",
        ),
    ],
)
def test_a_level_that_no_pool_has_is_refused_with_those_there_are(wants, said):
    run = history(pool(topology=LEVELS), pool("flat"), requested(wants=wants))
    assert refusal(run) == f"refused: {said}"


def test_levels_of_the_jobs_pools_are_admitted():
    wants = gang(topology_required="rack", topology_preferred="nvlink-domain", pools=("train",))
    assert decided(history(pool(topology=LEVELS), requested(wants=wants))).gang == wants


@pytest.mark.parametrize(
    ("wants", "said"),
    [
        (Gang(nodes=0), "nodes = 0 — a job has at least one node"),
        (Gang(nodes=8, nodes_max=2), "nodes = 8..2 — the minimum is above the maximum; 2..8"),
        (gang(1_500), "resources.gpus = 1.5 — more than one GPU is a number of whole GPUs; 1 or 2"),
        (gang(-1_000), "resources.gpus = -1 — must be above 0"),
        (gang(cpu_milli=-1), "resources.cpu = -1 — must not be negative"),
        (gang(memory_bytes=-5), "resources.memory = -5 — must not be negative"),
        (gang(gpu_memory_bytes=-5), "resources.gpu_memory = -5 — must not be negative"),
    ],
)
def test_a_gang_that_cannot_be_is_refused_whoever_recorded_it(wants, said):
    assert refusal(history(requested(wants=wants))) == f"refused: {said}"


def test_shares_are_not_cut_from_mig_slices():
    kind = Accelerator(milli=500, profile="1g.10gb")
    assert refusal(history(requested(wants=Gang(accelerators=(kind,))))) == (
        "refused: resources.gpus = 1g.10gb:0.5 — shares cannot be cut from MIG slices; "
        "gpus: 1g.10gb:1"
    )
    run = history(mig_node(), pool("mig"), pool())
    run.given(requested(wants=gang(500, pools=("mig",))))
    assert refusal(run) == (
        "refused: resources.gpus = 0.5 with MIG pool 'mig' — shares cannot be cut from MIG slices; "
        "ask for gpus: 1g.10gb:1 or pools: [train]"
    )


def test_a_slice_is_asked_for_by_its_profile_alone():
    kind = Accelerator(milli=1_000, profile="1g.10gb")
    wants = Gang(accelerators=(kind,), pools=("mig",))
    run = history(mig_node(), pool("mig"), requested(wants=wants))
    assert decided(run).warning == ""
    run = history(mig_node(), pool("mig"), requested(wants=gang(1_000, pools=("mig",))))
    assert decided(run).warning.startswith("accepted, but cannot run today: no node of mig has")


def test_a_limit_of_a_type_binds_jobs_that_name_it():
    run = history(project(per_type={"H100": limited(4_000)}))
    run.given(requested("a-1", wants=gang(8_000, model="H100-80GB")))
    assert refusal(run) == (
        "refused: resources.gpus = H100-80GB:8 — project vision may hold at most 4 H100-80GB GPUs "
        "(limit set by apply at position 3); gpus: 4 fits"
    )
    assert isinstance(decided(run.given(requested("a-2", wants=gang(8_000)))), JobAdmitted)
    either = gang(8_000, model="H100").accelerators + gang(8_000, model="A100").accelerators
    wants = Gang(accelerators=either)
    assert isinstance(decided(run.given(requested("a-3", wants=wants))), JobAdmitted)


def test_limits_of_pools_bind_jobs_that_go_nowhere_else():
    mine = project(per_pool={"train": limited(2_000), "spot": limited(4_000)})
    run = history(mine, pool(), pool("spot"), pool("build"))
    wants = gang(3_000, nodes=2, pools=("train", "spot"))
    assert refusal(run.given(requested("a-1", wants=wants))) == (
        "refused: nodes = 2 — project vision may hold at most 4 GPUs of train or spot (limit set "
        "by apply at position 3); 2 × 3 is 6; nodes: 1 fits"
    )
    wants = gang(8_000, pools=("train", "build"))
    assert isinstance(decided(run.given(requested("a-2", wants=wants))), JobAdmitted)


def test_nobody_gets_a_job_larger_than_one_user_may_hold():
    run = history(project(users_equal=True, user_max_milli=2_000), requested(wants=gang(4_000)))
    assert refusal(run) == (
        "refused: resources.gpus = 4 — one user of project vision may hold at most 2 GPUs (limit "
        "set by apply at position 3); gpus: 2 fits"
    )


def test_a_protected_minimum_must_fit_the_quota():
    run = history(project(quota_milli=1_000))
    wants = gang(1_000, nodes=2, nodes_max=4)
    run.given(requested(wants=wants, protected_minimum=True))
    assert refusal(run).startswith("refused: preemptibility = semi-preemptible — project vision is")


@pytest.mark.parametrize(
    ("own", "of_project", "of_department", "of_pools", "hours"),
    [
        (1, 2, 3, (4,), 1),
        (0, 2, 3, (4,), 2),
        (0, 0, 3, (4,), 3),
        (0, 0, 0, (4, 5), 4),
        (0, 0, 0, (0, 5), 5),
        (0, 0, 0, (), 24),
    ],
)
def test_a_job_runs_no_longer_than_the_nearest_who_says_so(
    own, of_project, of_department, of_pools, hours
):
    pools = [pool(f"p{i}", max_duration_us=each * HOUR_US) for i, each in enumerate(of_pools)]
    above = project("research", kind="department", max_duration_us=of_department * HOUR_US)
    mine = project(parent="research", max_duration_us=of_project * HOUR_US)
    wants = gang(pools=tuple(p.name for p in pools))
    run = history(*pools, above, mine, requested(wants=wants, max_duration_us=own * HOUR_US))
    assert decided(run).max_duration_us == hours * HOUR_US


def test_the_tasks_of_a_group_have_what_their_group_was_given():
    run = history(pool(), project(pools={"training": ("train",)}))
    run.given(requested(trials=({}, {}), kind_of_group="array"))
    _, *tasks = (draft.event for draft in run.settled())
    assert [(t.gang.pools, t.max_duration_us) for t in tasks] == [(("train",), 24 * HOUR_US)] * 2


def racked(name, rack):
    return node(name, labels={"pool": "train", "rack": rack})


def test_what_no_domain_can_hold_today_is_told_with_what_is_nearest():
    known = (pool(topology=LEVELS), racked("n2", "r1"), racked("n3", "r2"), racked("n4", "r2"))
    wants = gang(8_000, nodes=3, topology_required="rack", pools=("train",))
    assert decided(history(*known, requested(wants=wants))).warning == (
        "accepted, but cannot run today: no 3 nodes of train have 8 × GPU each in one rack; "
        "nearest: topology.preferred: rack would fit n2 n3 n4"
    )
    wants = gang(8_000, nodes=2, topology_required="rack", pools=("train",))
    assert decided(history(*known, requested(wants=wants))).warning == ""


def test_a_pool_without_nodes_says_so():
    run = history(pool(), requested(wants=gang(pools=("train",))))
    assert decided(run).warning.endswith("no node is in that pool")


amounts = st.integers(-2, 9_000)
names = st.sampled_from(("a", "b", "c"))
levels = st.sampled_from(("", "zone", "rack", "row"))
kinds = st.builds(
    Accelerator, milli=amounts, model=st.sampled_from(("", "H100")),
    profile=st.sampled_from(("", "1g.10gb")),
)  # fmt: skip
gangs = st.builds(
    Gang, nodes=st.integers(-1, 3), nodes_max=st.integers(-1, 4),
    accelerators=st.lists(kinds, max_size=2).map(tuple), pools=st.lists(names, max_size=2).map(tuple),
    gpu_memory_bytes=st.sampled_from((0, GB)), topology_required=levels, topology_preferred=levels,
)  # fmt: skip
some_parts = st.dictionaries(names, st.builds(Allowance, quota_milli=amounts, limit_milli=amounts))
some_queues = st.builds(
    Queue, queue=names, kind=st.sampled_from(("project", "department")), parent=names,
    quota_milli=amounts, limit_milli=amounts, per_pool=some_parts, per_type=some_parts,
    users_equal=st.booleans(), user_max_milli=amounts, max_duration_us=amounts,
    pools=st.dictionaries(st.just("training"), st.lists(names, max_size=2).map(tuple)),
)  # fmt: skip
some_pools = st.builds(
    Pool, pool=names, label=st.just("pool"), value=names, max_duration_us=amounts,
    topology=st.lists(levels, max_size=3).map(tuple),
)  # fmt: skip


@given(
    queues=st.lists(some_queues, max_size=3), pools=st.lists(some_pools, max_size=3), wants=gangs,
    firm=st.booleans(),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_whatever_the_log_holds_a_job_is_admitted_or_refused_in_one_line(
    queues, pools, wants, firm
):
    run = history_of(DECIDER, node(), mig_node())
    run.given(*(QueueConfigured(name=q.queue, queue=q, change="created") for q in queues))
    run.given(*(PoolConfigured(name=p.pool, pool=p, change="created") for p in pools))
    run.given(requested(project="a", wants=wants, preemptible=not firm, protected_minimum=firm))
    (draft,) = run.turn()
    if isinstance(draft.event, JobAdmitted):
        assert draft.event.max_duration_us > 0
        assert set(draft.event.gang.pools) <= {p.pool for p in pools}
    else:
        assert "\n" not in str(draft.event.refusal)
