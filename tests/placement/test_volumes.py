"""Volumes: jobs go where theirs are reached."""

import msgspec

from headrace.events.asked import Accelerator, Gang
from headrace.events.volumes import Volume, VolumeConfigured
from headrace.placement.explain_rules import explain


def reached(history, name, site="", **near):
    label = "site" if site else ""
    volume = Volume(volume=name, path="/mnt/data", label=label, value=site, **near)
    history.given(VolumeConfigured(name=name, volume=volume, change="created"))


def wants(nodes=1, gpus=1, volumes=("datasets",)):
    return Gang(nodes=nodes, accelerators=(Accelerator(milli=gpus * 1000),), volumes=volumes)


def placed_on(history, job):
    return [worker.node for worker in history.placed(job).workers]


def test_a_job_is_placed_where_its_volume_is_reached(history):
    history.node("n3", labels={"site": "berlin"})
    reached(history, "datasets", "berlin")
    history.job("train", gang=wants())
    history.settled()
    assert [worker.node for worker in history.placed("train").workers] == ["n3"]


def test_why_counts_the_nodes_that_do_not_reach_it(history):
    history.node("n3", labels={"site": "berlin"})
    reached(history, "datasets", "berlin")
    history.job("train", gang=wants(nodes=2))
    history.settled()
    why = explain(history.state, "train", history.now_us)
    assert why.excluded == {"not at volume datasets (site=berlin)": 2}


def test_a_volume_that_moves_takes_those_that_wait_with_it(history):
    history.node("n3", labels={"site": "berlin"})
    reached(history, "datasets", "paris")
    history.job("train", gang=wants())
    assert history.settled() == []
    reached(history, "datasets", "berlin")
    history.settled()
    assert history.placed("train").workers[0].node == "n3"


def test_a_job_is_placed_where_its_interpreter_is(history):
    history.node("n3", pythons=("3.12",))
    history.job("train", gang=Gang(accelerators=(Accelerator(milli=1000),), python="3.12"))
    history.settled()
    assert history.placed("train").workers[0].node == "n3"


def test_a_job_is_placed_near_its_volume_while_there_is_room_and_else_anywhere(history):
    history.node("n3", labels={"rack": "r1"})
    reached(history, "datasets", near_label="rack", near_value="r1")
    history.job("first", gang=wants(gpus=8))
    history.settled()
    assert placed_on(history, "first") == ["n3"]
    assert history.placed("first").act.names["near"] == "datasets"
    history.job("second", gang=wants(gpus=8))
    history.settled()
    assert placed_on(history, "second") != ["n3"]
    assert "near" not in history.placed("second").act.names


def test_a_gang_that_has_no_room_near_its_volume_as_a_whole_goes_elsewhere(history):
    history.node("n3", labels={"rack": "r1"})
    reached(history, "datasets", near_label="rack", near_value="r1")
    history.job("train", gang=wants(nodes=2))
    history.settled()
    assert len(placed_on(history, "train")) == 2


def test_an_elastic_gang_grows_beyond_the_nodes_that_are_near(history):
    history.node("n3", labels={"rack": "r1"})
    reached(history, "datasets", near_label="rack", near_value="r1")
    elastic = msgspec.structs.replace(wants(gpus=8), nodes_max=2)
    history.job("train", gang=elastic)
    history.settled()
    history.starts("train")
    history.settled()
    nodes = {worker.node for worker in history.state.jobs["train"].run.workers}
    assert "n3" in nodes
    assert len(nodes) == 2


def test_near_never_leads_where_a_volume_is_not_reached(history):
    history.node("n3", labels={"site": "berlin"})
    history.node("n4", labels={"rack": "r1"})
    reached(history, "datasets", "berlin", near_label="rack", near_value="r1")
    history.job("train", gang=wants())
    history.settled()
    assert placed_on(history, "train") == ["n3"]


def test_of_volumes_that_are_near_to_different_nodes_the_first_named_decides(history):
    for node, rack in (("n3", "r1"), ("n4", "r2")):
        history.node(node, labels={"rack": rack})
    reached(history, "datasets", near_label="rack", near_value="r2")
    reached(history, "home", near_label="rack", near_value="r1")
    history.job("train", gang=wants(volumes=("home", "datasets")))
    history.settled()
    assert placed_on(history, "train") == ["n3"]
    assert history.placed("train").act.names["near"] == "home"


def test_why_says_nothing_of_what_is_only_near(history):
    reached(history, "datasets", near_label="rack", near_value="r1")
    history.job("first", gang=wants(nodes=2, gpus=8))
    history.settled()
    history.job("second", gang=wants())
    assert history.settled() == []
    why = explain(history.state, "second", history.now_us)
    assert not [reason for reason in why.excluded if "volume" in reason]
