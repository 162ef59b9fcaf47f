"""A sweep's trials, shown to be compared."""

import json

import msgspec
from tests.cli.program import in_log
from tests.gateway.test_trials import sweep, trial

from headrace.bundles.manifest import File, Manifest, encode_manifest, name_of
from headrace.events.sweeps import SweepBest

BEST = SweepBest(
    job="lr-x", project="vision", trial="lr-x/1", metric="accuracy", goal="max", value="0.9",
    measured=2,
)  # fmt: skip


async def test_a_sweep_is_one_table_with_the_best_first(world, headrace):
    await in_log(world, *sweep(), *trial(0, accuracy=0.5, loss=2), *trial(1, accuracy=0.9), BEST)
    code, out, err = await headrace("sweep", "show", "lr")
    head, best, *rows = out.splitlines()
    assert (code, err) == (0, "")
    assert head == "lr-x  waiting   4 trials: 2 succeeded  1 waiting  1 submitted"
    assert best == "  best  lr-x/1  accuracy=0.9   lr=2"
    assert [row.split()[:5] for row in rows[:3]] == [
        ["TRIAL", "STATE", "lr", "accuracy", "loss"],
        ["1", "*", "succeeded", "2", "0.9"],
        ["0", "succeeded", "1", "0.5", "2"],
    ]
    _, out, _ = await headrace("sweep", "show", "lr", "--sort=-lr", "-o", "json")
    assert [row["params"]["lr"] for row in json.loads(out)["trials"]] == ["4", "3", "2", "1"]


async def test_outputs_of_a_sweep_are_those_of_its_trials_by_index(world, headrace, tmp_path):
    objects = world.gateway.keeper.of("vision")
    ended = []
    for index in range(2):
        data = f"model {index}".encode()
        objects.put(name_of(data), data)
        file = File(path="model/weights", size=len(data), digest=name_of(data))
        tree = encode_manifest(Manifest(files=(file,)))
        assert objects.put_tree(tree) == []
        start, begun, exited, *rest = trial(index)
        ended += [start, begun, msgspec.structs.replace(exited, outputs=name_of(tree)), *rest]
    await in_log(world, *sweep(), *ended)
    code, out, err = await headrace("outputs", "lr", "-o", "got")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["got/0/model/weights", "got/1/model/weights"]
    assert (tmp_path / "got/1/model/weights").read_text() == "model 1"
    assert (await headrace("outputs", "lr/2", "-o", "none"))[0] == 1


async def test_a_metric_that_is_misspelt_is_said_with_those_that_are_reported(world, headrace):
    await in_log(world, *sweep(metric="acuracy"), *trial(0, accuracy=0.5, loss=2))
    _, out, _ = await headrace("sweep", "show", "lr-x")
    assert "no trial has reported acuracy, by which they are compared; accuracy, loss are" in out


async def test_what_a_trial_reports_is_compared_however_large_it_is(world, headrace):
    huge = "1e999999999"  # beyond what decimals may be calculated with
    await in_log(world, *sweep(), *trial(0, accuracy=huge), *trial(1, accuracy=0.9))
    code, out, err = await headrace("sweep", "show", "lr", "--sort=-accuracy")
    assert (code, err) == (0, "")
    assert [row.split()[0] for row in out.splitlines()[2:4]] == ["0", "1"]
