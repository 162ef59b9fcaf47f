"""Documents of administrators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.documents import read_fleet, read_pool, read_queue, read_scheduling, read_volume
from headrace.documents.fleet import QueueDocument
from headrace.documents.pool_file import PoolDocument
from headrace.documents.scheduling_file import SchedulingDocument
from headrace.documents.yaml_text import parse_documents
from headrace.events import Refusal
from headrace.events.pools import Pool
from headrace.events.queues import Allowance, Queue
from headrace.events.scheduling import Scheduling
from headrace.events.volumes import Volume


def test_a_project_has_what_its_document_says_and_defaults_for_the_rest():
    gpus = {"quota": 16, "limit": "32", "over_quota_weight": 2}
    document = {"type": "project", "name": "vision", "department": "research", "gpus": gpus}
    assert read_queue(document) == Queue(
        queue="vision", kind="project", parent="research", quota_milli=16_000, limit_milli=32_000,
        weight=2, priority=100,
    )  # fmt: skip
    assert read_queue({"type": "department", "name": "research", "priority": 7}) == Queue(
        queue="research", kind="department", priority=7
    )


def test_a_quota_may_be_the_whole_fleet_and_a_limit_none():
    found = read_queue({"type": "project", "name": "a", "gpus": {"quota": "all", "limit": "none"}})
    assert (found.quota_milli, found.limit_milli) == (-1, -1)


def test_a_quota_may_be_part_of_a_gpu():
    assert read_queue({"type": "project", "name": "a", "gpus": {"quota": 0.5}}).quota_milli == 500


@pytest.mark.parametrize("name", QueueDocument.not_yet)
def test_what_a_project_cannot_have_yet_is_refused_by_name(name):
    refusal = read_queue({"type": "project", "name": "a", name: {"x": 1}})
    assert str(refusal) == f"refused: {name} — not yet"


HOUR_US = 3_600_000_000

FLEET = """
type: department
name: research
gpus: {quota: 24}
priority: 100
min_runtime: {preempt: 60s, reclaim: 0s}
max_evictions: {count: 20, per: 1h}
max_duration: 24h
---
type: project
name: vision
department: research
gpus: {quota: 16, limit: 32, over_quota_weight: 2, per_type: {H100: {quota: 8}}, per_pool: {train: {limit: 4.5}}}
cpu: {quota: 64}
memory: {quota: 0, limit: 512GB}
pools: {workspace: [build], training: [train, spot], inference: [train]}
users: {fair: equal, max_gpus: 8}
---
type: pool
name: train
nodes: {label: pool=train}
placement: fragmentation-aware
price: {H100: 2.10, A100: 1.20, currency: EUR, per: gpu_hour}
max_duration: 3d
topology: [zone, rack, nvlink-domain]
"""


def test_a_fleet_is_read_as_it_is_written():
    department, project, pool = (read_fleet(d.fields, d.lines) for d in parse_documents(FLEET))
    assert department == Queue(
        queue="research", kind="department", quota_milli=24_000, reclaim_after_us=0,
        preempt_after_us=60_000_000, max_duration_us=24 * HOUR_US, evictions_max=20,
        evictions_per_us=HOUR_US,
    )  # fmt: skip
    assert project == Queue(
        queue="vision", kind="project", parent="research", quota_milli=16_000, limit_milli=32_000,
        weight=2, per_type={"H100": Allowance(quota_milli=8_000)},
        per_pool={"train": Allowance(limit_milli=4_500)}, cpu_quota_milli=64_000,
        memory_quota_bytes=0, memory_limit_bytes=512 * 10**9,
        users_equal=True, user_max_milli=8_000,
        pools={"workspace": ("build",), "training": ("train", "spot"), "inference": ("train",)},
    )  # fmt: skip
    assert pool == Pool(
        pool="train", label="pool", value="train", placement="fragmentation-aware",
        topology=("zone", "rack", "nvlink-domain"), prices={"H100": 2_100_000, "A100": 1_200_000},
        currency="EUR", max_duration_us=72 * HOUR_US,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"type": "project", "name": "fleet", "department": "d"}, "refused: name = fleet — is the whole fleet's own"),
        ({"type": "department", "name": "fleet"}, "refused: name = fleet — is the whole fleet's own"),
        ({"type": "volume", "name": "a"}, "refused: path — must be an absolute path; /mnt/datasets"),
        ({"type": "volume", "name": "a", "path": "/a", "near": {"label": "rack"}}, "refused: near.label = rack — must be a label and its value; near: {label: pool=train}"),
        ({"type": "volume", "name": "a", "path": "/a", "nodes": {"label": "site=x"}, "near": {"label": "site=y"}}, "refused: near.label = site=y — no node that reaches it has this"),
        ({"type": "projct", "name": "a"}, "refused: type = projct — is not a document that can be applied; did you mean project?"),
        ({"type": "training"}, "refused: type = training — is a job; headrace submit"),
        ({"name": "a"}, "refused: type — must be given; department, project, pool, volume, template, webhook or scheduling"),
        ({"type": "project"}, "refused: name — has 1 to 41 of a-z 0-9 and '-', not starting with '-'"),
        ({"type": "project", "name": "A.b"}, "refused: name = A.b — has 1 to 41 of a-z 0-9 and '-', not starting with '-'"),
        ({"type": "project", "name": "a", "gpus": {"quota": -1}}, "refused: gpus.quota = -1 — must be a number, not negative; such as 2 or 0.5"),
        ({"type": "project", "name": "a", "gpus": {"quotas": 1}}, "refused: gpus.quotas — unknown field; did you mean quota?"),
        ({"type": "project", "name": "a", "quota": 1}, "refused: quota — unknown field; did you mean gpus.quota?"),
        ({"type": "project", "name": "a", "priority": "high"}, "refused: priority = high — must be a whole number from 0 to 1000000"),
        ({"type": "project", "name": "a", "gpus": {"per_type": {"H100": {"quotas": 1}}}}, "refused: gpus.per_type.H100.quotas — unknown field; did you mean quota?"),
        ({"type": "project", "name": "a", "gpus": {"per_type": {"H100": 8}}}, "refused: gpus.per_type.H100 = 8 — must be a mapping of names to values"),
        ({"type": "project", "name": "a", "gpus": {"per_pool": 8}}, "refused: gpus.per_pool = 8 — must be a mapping of names to values"),
        ({"type": "project", "name": "a", "gpus": {"per_type": {"H100": {"quota": -1}}}}, "refused: gpus.per_type.H100.quota = -1 — must be a number, not negative; such as 2 or 0.5"),
        ({"type": "project", "name": "a", "memory": {"quota": 8}}, "refused: memory.quota = 8 — is not a size with its unit; 8GB (10⁹ bytes) or 8GiB (2³⁰ bytes)"),
        ({"type": "project", "name": "a", "min_runtime": {"preempt": "soon"}}, "refused: min_runtime.preempt = soon — is not a duration; 90s, 15m, 8h or 3d"),
        ({"type": "project", "name": "a", "max_evictions": {"count": 0, "per": "1h"}}, "refused: max_evictions.count = 0 — must be a whole number from 1 to 1000000"),
        ({"type": "project", "name": "a", "max_evictions": {"count": 1}}, "refused: max_evictions.per — is not a duration; 90s, 15m, 8h or 3d"),
        ({"type": "project", "name": "a", "max_duration": "400d"}, "refused: max_duration = 400d — is longer than a year; leave it out"),
        ({"type": "project", "name": "a", "pools": {"batch": ["x"]}}, "refused: pools.batch — is not a type of job; training, workspace, inference"),
        ({"type": "project", "name": "a", "pools": {"training": ["x", "x"]}}, "refused: pools.training[1] = x — is named twice"),
        ({"type": "project", "name": "a", "users": {"fair": "random"}}, "refused: users.fair = random — is not one of the words known here; equal"),
        ({"type": "department", "name": "a", "users": {"fair": "equal"}}, "refused: users — only a project has users; say it in its projects"),
        ({"type": "pool", "name": "a"}, "refused: nodes.label — must be given; nodes: {label: pool=train}"),
        ({"type": "pool", "name": "a", "nodes": {"label": "train"}}, "refused: nodes.label = train — must be a label and its value; nodes: {label: pool=train}"),
        ({"type": "pool", "name": "a", "gpus": {"quota": 1}}, "refused: gpus — unknown field"),
        ({"type": "pool", "name": "a", "placement": "best"}, "refused: placement = best — is not a way of placing; binpack, spread, fragmentation-aware"),
        ({"type": "pool", "name": "a", "nodes": {"label": "a=b"}, "topology": ["rack", "rack"]}, "refused: topology[1] = rack — is a level already"),
        ({"type": "pool", "name": "a", "nodes": {"label": "a=b"}, "price": {"H100": 2}}, "refused: price.currency — must be the three letters of a currency; EUR"),
        ({"type": "pool", "name": "a", "nodes": {"label": "a=b"}, "price": {"H100": -2, "currency": "EUR"}}, "refused: price.H100 = -2 — must be a number, not negative; such as 2.10"),
        ({"type": "pool", "name": "a", "nodes": {"label": "a=b"}, "price": {"H100": 2, "currency": "EUR", "per": "day"}}, "refused: price.per = day — is not a unit of price; gpu_hour"),
        ({"type": "pool", "name": "a", "nodes": {"label": "a=b"}, "price": {"currency": "EUR"}}, "refused: price — has the prices of 1 to 64 models; H100: 2.10"),
        ({"type": "scheduling", "name": "a"}, "refused: name — unknown field"),
        ({"type": "scheduling", "past_usage": {"strength": -1}}, "refused: past_usage.strength = -1 — must be a number, not negative; such as 2 or 0.5"),
        ({"type": "scheduling", "past_usage": {"strength": 101}}, "refused: past_usage.strength = 101 — is at most 100"),
        ({"type": "scheduling", "past_usage": {"half_life": "1s"}}, "refused: past_usage.half_life = 1s — must be whole seconds, 60 to 31536000"),
        ({"type": "scheduling", "reservations": {"after": "0.5s"}}, "refused: reservations.after = 0.5s — must be whole seconds, 1 to 31536000"),
        ({"type": "scheduling", "reservations": {"at_most": 65}}, "refused: reservations.at_most = 65 — must be a whole number from 0 to 64"),
        ({"type": "scheduling", "reservation": {"after": "5s"}}, "refused: reservation — unknown field; did you mean reservations?"),
        ([], "refused: document — must be a mapping of names to values"),
    ],
)  # fmt: skip
def test_what_is_no_such_document_is_refused_in_one_line(document, said):
    assert str(read_fleet(document)) == said


def test_each_door_takes_its_own_documents():
    said = "refused: type = pool — is not a document that can be applied; department or project"
    assert str(read_queue({"type": "pool", "name": "a"})) == said
    said = "refused: type = project — is not a document that can be applied; pool"
    assert str(read_pool({"type": "project", "name": "a"})) == said


def test_a_refusal_names_the_line():
    refusal = read_fleet({"type": "project", "name": "a", "pool": 1}, {"": 3, "pool": 6})
    assert str(refusal).endswith("did you mean pools? (line 6)")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(QueueDocument.__struct_fields__), ANY, max_size=5))
def test_any_document_is_a_queue_or_a_refusal(document):
    assert isinstance(read_queue({"type": "project", "name": "a"} | document), Queue | Refusal)


@given(st.dictionaries(st.sampled_from(PoolDocument.__struct_fields__), ANY, max_size=5))
def test_any_document_is_a_pool_or_a_refusal(document):
    assert isinstance(read_pool({"type": "pool", "name": "a"} | document), Pool | Refusal)


@given(st.dictionaries(st.sampled_from(SchedulingDocument.__struct_fields__), ANY, max_size=4))
def test_any_document_says_how_turns_are_taken_or_is_a_refusal(document):
    read = read_scheduling(document | {"type": "scheduling"})
    assert isinstance(read, Scheduling | Refusal)


@pytest.mark.parametrize(
    "path",
    ["/dev", "/proc/1/root", "//sys/", "/run", "/./run/docker", "/var/run/user/0", "/dev/shm"],
)
def test_what_hands_out_the_machine_is_no_volume(path):
    refusal = read_volume({"type": "volume", "name": "a", "path": path})
    assert isinstance(refusal, Refusal)
    assert (refusal.field, refusal.value) == ("path", path)
    assert "is the machine's own, not data" in refusal.rule


@pytest.mark.parametrize("path", ["/runs", "/mnt/dev", "/var/runners/sys", "/srv/run"])
def test_a_volume_may_have_a_name_like_the_machines_own(path):
    volume = read_volume({"type": "volume", "name": "a", "path": path})
    assert volume == Volume(volume="a", path=path)
