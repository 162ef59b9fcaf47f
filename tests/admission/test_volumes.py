"""Volumes: applied, and asked for by jobs."""

import pytest

from headrace.events.volumes import (
    Volume,
    VolumeApplyRequested,
    VolumeConfigured,
    VolumeDeleted,
    VolumeDeleteRequested,
)

from .facts import decided, finished, gang, history, node, refusal, requested


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
    run = history(there(), requested(wants=gang(volumes=("dataset",))))
    assert refusal(run) == ("refused: volumes = dataset — no such volume; did you mean datasets?")


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


def test_a_volume_is_deleted_when_no_live_job_has_it():
    wanted = requested(wants=gang(volumes=("datasets",)))
    deleting = VolumeDeleteRequested(name="datasets", user="ada")
    run = history(there(), wanted)
    run.turn()
    assert refusal(run.given(deleting)) == (
        "refused: volume = datasets — 1 job with it has not ended: a-1; cancel them or wait"
    )
    run.given(finished(), deleting)
    assert decided(run) == VolumeDeleted(name="datasets")
    assert "there is none yet" in refusal(run.given(deleting))


def test_what_is_asked_in_one_turn_is_judged_in_the_order_of_the_log():
    deleting = VolumeDeleteRequested(name="datasets", user="ada")
    wanted = requested(wants=gang(volumes=("datasets",)))
    late = history(there(), deleting, wanted).turn()
    assert "no such volume" in str(late[1].event.refusal)
    early = history(there(), wanted, deleting).turn()
    assert "has not ended: a-1" in str(early[1].event.refusal)
