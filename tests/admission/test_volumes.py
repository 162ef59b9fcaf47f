"""Volumes: applied, and asked for by jobs."""

import pytest

from headrace.events import Refusal
from headrace.events.volumes import Volume, VolumeApplyRequested, VolumeConfigured

from .facts import decided, gang, history, node, requested


def asked(name="datasets", **fields):
    volume = Volume(volume=name, path="/mnt/datasets", **fields)
    return VolumeApplyRequested(name=name, volume=volume, user="ada")


def there(name="datasets", **fields):
    request = asked(name, **fields)
    return VolumeConfigured(name=name, volume=request.volume, change="created")


def test_a_volume_is_created_then_updated_then_unchanged():
    assert decided(history(asked())) == there()
    assert decided(history(there(), asked(label="site", value="berlin"))).change == "updated"
    assert decided(history(there(), asked())).change == "unchanged"


def test_a_job_that_names_a_volume_nobody_declared_is_refused_with_the_nearest():
    wants = gang(volumes=("dataset",))
    refusal = decided(history(there(), requested(wants=wants))).refusal
    assert refusal == Refusal(
        field="volumes", value="dataset", rule="no such volume", instead="did you mean datasets?"
    )


def test_volumes_that_no_node_can_reach_together_are_refused():
    wants = gang(volumes=("a", "b"))
    volumes = (there("a", label="site", value="x"), there("b", label="site", value="y"))
    refusal = decided(history(*volumes, requested(wants=wants))).refusal
    assert refusal.rule == "no node reaches it and a too: their labels exclude each other"


@pytest.mark.parametrize(("site", "said"), [("berlin", ""), ("paris", "0 nodes reach volume")])
def test_a_volume_that_no_node_reaches_today_is_said_at_once(site, said):
    volume = there(label="site", value="berlin")
    request = requested(wants=gang(volumes=("datasets",)))
    warned = decided(history(node(labels={"site": site}), volume, request)).warning
    assert said in warned
    assert bool(warned) == bool(said)
