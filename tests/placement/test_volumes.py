"""Volumes: jobs go where theirs are reached."""

from headrace.events.asked import Accelerator, Gang
from headrace.events.volumes import Volume, VolumeConfigured
from headrace.placement.explain_rules import explain


def reached(history, name, site):
    volume = Volume(volume=name, path="/mnt/data", label="site", value=site)
    history.given(VolumeConfigured(name=name, volume=volume, change="created"))


def wants(nodes=1):
    return Gang(nodes=nodes, accelerators=(Accelerator(milli=1000),), volumes=("datasets",))


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
