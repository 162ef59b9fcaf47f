"""Who gets which devices."""

import msgspec

from headrace.events import tag_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import GangEvicted, GangPlaced
from headrace.events.pools import Pool, PoolConfigured
from headrace.placement.explain_rules import explain
from headrace.scheduling.exclusions import ELSEWHERE, NO_ENGINE

GB = 10**9


def placements(events):
    return [event.job for event in events if isinstance(event, GangPlaced)]


def test_a_gang_that_does_not_fit_whole_is_not_placed_at_all(history):
    history.job("big", nodes=3, gpus=1000)
    assert history.settled() == []
    assert explain(history.state, "big", history.now_us).rule == "no-such-gpu"


def test_a_gang_waits_for_all_its_nodes(history):
    history.job("first", gpus=8000)
    history.job("wide", nodes=2, gpus=8000)
    assert placements(history.settled()) == ["first"]
    found = explain(history.state, "wide", history.now_us)
    assert (found.rule, found.numbers["nodes_free"]) == ("no-room", 1)
    history.exits("first")
    assert placements(history.settled()) == ["wide"]


def test_who_waits_for_cpus_is_told_of_cpus(history):
    for name in ("a", "b", "c"):
        history.job(name, gang=Gang(cpu_milli=64_000))
    history.settled()
    found = explain(history.state, "c", history.now_us)
    assert found.text == "needs 1 node with 64 CPUs each; 0 free now"


def test_shares_pack_onto_a_device_that_is_shared_already(history):
    for name in ("a", "b", "c", "d"):
        history.job(name, gpus=250)
    history.settled()
    devices = {history.placed(name).workers[0].devices[0].device for name in "abcd"}
    assert len(devices) == 1


def test_the_preferred_kind_is_taken_first_and_kinds_are_never_mixed(empty_history):
    history = empty_history
    history.node("n1", gpus=2, model="H100-80GB")
    history.node("n2", gpus=2, model="A100-80GB")
    history.node("n3", gpus=2, model="A100-80GB")
    history.queue("default")
    kinds = (Accelerator(milli=2000, model="H100"), Accelerator(milli=2000, model="A100"))
    history.job("two", gang=Gang(nodes=2, accelerators=kinds))
    history.job("one", gang=Gang(nodes=1, accelerators=kinds))
    history.settled()
    assert {w.node for w in history.placed("two").workers} == {"n2", "n3"}
    assert [w.node for w in history.placed("one").workers] == ["n1"]


def test_higher_priority_comes_first_then_who_was_admitted_first(empty_history):
    history = empty_history
    history.node("n1", gpus=1)
    history.queue("default")
    history.job("early")
    history.job("late")
    history.job("urgent", priority=80)
    assert placements(history.settled()) == ["urgent"]
    history.exits("urgent")
    assert placements(history.settled()) == ["early"]


def test_a_limit_holds_at_every_level(empty_history):
    history = empty_history
    history.node("n1")
    history.queue("research", kind="department", limit_milli=3000)
    history.queue("vision", parent="research", limit_milli=2000)
    history.queue("ads", parent="research")
    for number in range(4):
        history.job(f"v{number}", project="vision")
        history.job(f"a{number}", project="ads")
    placed = placements(history.settled())
    assert len(placed) == 3
    assert len([job for job in placed if job.startswith("v")]) <= 2
    assert explain(history.state, "v3", history.now_us).rule == "limit"


def test_two_queues_share_what_neither_is_guaranteed(empty_history):
    history = empty_history
    history.node("n1")
    history.queue("vision", weight=3)
    history.queue("ads", weight=1)
    for number in range(8):
        history.job(f"a{number}", project="ads")
        history.job(f"v{number}", project="vision")
    placed = placements(history.settled())
    assert len([job for job in placed if job.startswith("v")]) == 6
    assert len([job for job in placed if job.startswith("a")]) == 2


def test_a_share_by_memory_takes_that_much_of_one_device(empty_history):
    history = empty_history
    history.node("n1", gpus=1)
    history.queue("default")
    history.job("m", gang=Gang(gpu_memory_bytes=20 * GB))
    (placed,) = history.settled()
    assert (placed.milli, placed.workers[0].devices[0].milli) == (250, 250)


def test_cpu_and_memory_bound_too(empty_history):
    history = empty_history
    history.node("n1", gpus=8, cpu_milli=3000)
    history.queue("default")
    for number in range(4):
        history.job(f"j{number}")
    assert len(placements(history.settled())) == 3


def test_a_job_of_an_unknown_project_waits_and_says_so(history):
    history.job("a", project="nowhere")
    assert history.settled() == []
    assert explain(history.state, "a", history.now_us).rule == "unknown-project"
    history.queue("nowhere")
    assert [tag_of(event) for event in history.settled()] == ["gang.placed.v1"]


def test_a_pool_places_by_its_own_policy_and_its_jobs_stay_in_it(empty_history):
    history = empty_history
    history.node("n1", gpus=2)
    for name in ("n2", "n3"):
        history.node(name, gpus=2, labels={"pool": "wide"})
    history.queue("default")
    pool = Pool(pool="wide", label="pool", value="wide", placement="spread")
    history.given(PoolConfigured(name="wide", pool=pool, change="created"))
    for name in ("a", "b"):
        gang = Gang(accelerators=(Accelerator(milli=1000),), pools=("wide",))
        history.job(name, gang=gang)
        history.settled()
    history.job("c")
    history.settled()
    assert {history.placed(name).workers[0].node for name in "ab"} == {"n2", "n3"}
    assert history.placed("a").act.names == {"policy": "spread", "pool": "wide"}
    history.job("d", gang=Gang(accelerators=(Accelerator(milli=1000),), pools=("gone",)))
    assert history.settled() == []
    assert explain(history.state, "d", history.now_us).excluded == {ELSEWHERE: 3}


def test_workers_that_must_be_in_one_rack_are(empty_history):
    history = empty_history
    for name, rack in (("n1", "r1"), ("n2", "r2"), ("n3", "r2")):
        history.node(name, gpus=2, labels={"pool": "train", "rack": rack})
    history.queue("default")
    pool = Pool(pool="train", label="pool", value="train", topology=("rack",))
    history.given(PoolConfigured(name="train", pool=pool, change="created"))
    gang = Gang(nodes=2, accelerators=(Accelerator(milli=2000),), topology_required="rack")
    history.job("near", gang=gang)
    history.settled()
    assert {worker.node for worker in history.placed("near").workers} == {"n2", "n3"}
    history.job("large", gang=msgspec.structs.replace(gang, nodes=3))
    assert history.settled() == []
    assert explain(history.state, "large", history.now_us).rule == "topology"


def test_users_of_a_project_share_it_equally(empty_history):
    history = empty_history
    history.node("n1", gpus=4)
    history.queue("default", users_equal=True)
    for number in range(8):
        history.job(f"a{number}", user="ada")
    history.settled()
    history.job("b", user="bob")
    events = history.settled()
    assert [event.gainer for event in events if isinstance(event, GangEvicted)] == ["b"]


def test_a_job_with_an_image_waits_for_a_node_that_has_an_engine(history):
    gang = Gang(accelerators=(Accelerator(milli=1000),), contained=True)
    history.job("trained", gang=gang)
    assert history.settled() == []
    found = explain(history.state, "trained", history.now_us)
    assert found.excluded == {NO_ENGINE: len(history.state.machines)}
    assert "with a container engine and GPU:1" in found.text

    history.node("n9", engine="docker 28.2.2")
    history.settled()

    assert history.placed("trained").workers[0].node == "n9"


def test_a_node_whose_engine_has_gone_takes_no_more_images(history):
    history.node("n9", engine="docker 28.2.2")
    history.node("n9")
    history.job("trained", gang=Gang(accelerators=(Accelerator(milli=1000),), contained=True))
    assert history.settled() == []
