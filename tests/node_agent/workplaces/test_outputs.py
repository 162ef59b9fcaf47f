"""What workers leave behind, what later ones find of it, and volumes."""

import os
import shutil
import stat

import pytest
from tests.node_agent.placement_twin import until
from tests.node_agent.workplaces.jobs import kept, left, place, ran, shell
from tests.open_folders import full_disk

from headrace.bundles.manifest import File, Manifest
from headrace.client.errors import ClientError
from headrace.events.asked import Mount
from headrace.gateway import outputs_api

WRITE = "mkdir -p model/deep; echo weights > model/deep/w; ln -s deep/w model/last; echo no > other"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="takes root")


async def test_what_is_listed_is_kept_and_can_be_fetched(world, node, tmp_path):
    _, end = await left(world, node, "train", WRITE, outputs=("model", "nothing"))
    assert (end.exit_code, end.outputs_files, end.outputs_bytes) == (0, 2, 8)
    paths = await world.call(world.client().outputs, "train", tmp_path / "got")
    assert sorted(paths) == ["model/deep/w", "model/last"]
    assert (tmp_path / "got" / "model" / "last").read_text() == "weights\n"
    again = await world.call(world.client().outputs, "train", tmp_path / "got")
    assert again == paths


async def test_what_cannot_be_written_here_is_not_the_platforms_fault(world, node, tmp_path):
    await left(world, node, "train", WRITE, outputs=("model",))
    (tmp_path / "model" / "last" / "in-the-way").mkdir(parents=True)
    with pytest.raises(ClientError, match=f"cannot write {tmp_path}/model/last: "):
        await world.call(world.client().outputs, "train", tmp_path)


async def test_what_is_written_into_the_output_folder_is_kept_unasked(world, node, tmp_path):
    await left(world, node, "train", "echo 1 > $HEADRACE_OUTPUT_DIR/loss.txt")
    assert await world.call(world.client().outputs, "train", tmp_path / "got") == ["loss.txt"]


async def test_what_a_failed_worker_left_is_kept_too(world, node):
    _, end = await left(world, node, "train", f"{WRITE}; exit 3", outputs=("model",))
    assert (end.exit_code, end.outputs_files) == (3, 2)


LEADS_OUT = [
    ("mkdir model; ln -s /etc/passwd model/x", "link out of the working directory"),
    ("mkdir model; mkfifo model/x", "neither a file nor a folder nor a link"),
]


@pytest.mark.parametrize(("script", "said"), LEADS_OUT)
async def test_what_cannot_be_kept_makes_the_end_a_failure_that_says_so(world, node, script, said):
    _, end = await left(world, node, "train", script, outputs=("model",))
    assert (end.exit_code, end.outputs) == (125, "")
    assert end.message.startswith("outputs cannot be kept: model/x")
    assert said in end.message


async def test_a_link_in_the_way_of_what_is_listed_is_not_followed(world, node):
    _, end = await left(world, node, "train", "ln -s /etc model", outputs=("model/passwd",))
    assert (end.exit_code, end.outputs_files) == (0, 0)


async def test_the_working_folder_goes_when_what_is_kept_is_told(world, node):
    key = await node.placement.want("plain", *shell("echo x > big"))
    await node.placement.ended(key)
    await until(lambda: not (node.folder(key) / "work").exists(), "its folder gone")
    assert (await node.placement.logs(key)).data == b""


async def test_an_agent_that_ends_while_it_sends_is_followed_by_one_that_sends_again(world, node):
    await place(world, "train")
    await world.gateway.node_files.close()
    key = await node.placement.want("train", *shell(WRITE), outputs=("model",))
    await until((node.folder(key) / "exit.json").exists, "its end")
    await node.kill_agent()
    assert node.placement.end_of(key) is None
    await world.gateway.node_files.open()
    await node.start()
    assert (await node.placement.ended(key)).outputs_files == 2


async def test_a_later_job_finds_what_earlier_ones_left(world, node, folder):
    await left(world, node, "features", "mkdir f; echo 1 > f/a", outputs=("f",))
    await left(world, node, "labels", "mkdir f; echo 2 > f/b", outputs=("f",))
    mounts = (
        Mount(job="features", path="in/features", read_only=True),
        Mount(job="labels", path="in/labels", read_only=True),
    )
    script = "cat in/*/f/* a.py; echo 3 > in/features/f/a"
    for job in ("train-1", "train-2"):
        said, end = await left(world, node, job, script, mounts=mounts, workdir=kept(world, folder))
        assert (said, end.exit_code) == ("1\n2\none", 0)


@AS_ROOT
async def test_an_absolute_path_is_seen_by_the_worker_alone(world, node, tmp_path):
    await left(world, node, "features", "mkdir f; echo 1 > f/a", outputs=("f",))
    where = tmp_path / "inputs"
    mounts = (Mount(job="features", path=str(where), read_only=True),)
    said, end = await left(world, node, "train", f"cat {where}/f/a", mounts=mounts)
    assert (said, end.exit_code) == ("1\n", 0)
    said, _ = await left(world, node, "spoil", f"touch {where}/f/b || echo no", mounts=mounts)
    assert said.endswith("no\n")
    assert list(where.iterdir()) == []


@AS_ROOT
async def test_what_a_full_node_has_no_room_for_is_the_nodes_fault(world, node, folder, tmp_path):
    """Not the job's, which is tried again elsewhere."""
    await left(world, node, "features", "echo 1 > f", outputs=("f",))
    workdir = kept(world, folder)
    await place(world, "train", "code")
    mounts = (Mount(job="features", path="in", read_only=True),)
    with full_disk(node.dir / "bundles"):
        _, inputs = await ran(node, "train", "true", mounts=mounts)
        _, code = await ran(node, "code", "true", workdir=workdir)
    full = "No space left on device"
    assert (inputs.reason, inputs.message) == ("disk-full", f"cannot start: volumes: {full}")
    assert (code.reason, code.message) == ("disk-full", f"cannot start: workdir: {full}")


async def test_what_is_not_there_to_be_found_is_the_reason(world, node):
    await place(world, "running")
    await left(world, node, "nothing", "true")
    await left(world, node, "other", WRITE, outputs=("model",), project="ads")
    said = {
        "running": "running — has not ended yet: it is starting",
        "nothing": "job nothing left nothing behind (outputs:)",
        "nobody": "no job nobody is known in project vision",
        "other": "no job other is known in project vision",
    }
    for number, (job, reason) in enumerate(said.items()):
        mounts = (Mount(job=job, path="in", read_only=True),)
        _, end = await left(world, node, f"train-{number}", "true", mounts=mounts)
        assert end.message.startswith("cannot start: volumes: ")
        assert end.message.endswith(reason)


@pytest.fixture
def data(tmp_path):
    made = tmp_path / "mnt" / "datasets"
    made.mkdir(parents=True)
    (made / "x").write_text("data")
    made.chmod(0o777)  # as an administrator who lets every account write
    return made


async def test_a_volume_is_linked_below_the_working_folder(node, data):
    mounts = (Mount(volume="data-sets", path="in/data"),)
    script = "cat in/data/x $HEADRACE_VOLUME_DATA_SETS/x; echo new > in/data/y"
    of = {"mounts": mounts, "volumes": {"data-sets": str(data)}}
    said, end = await ran(node, "train", *shell(script), **of)
    assert (said, end.exit_code) == ("datadata", 0)
    assert (data / "y").read_text() == "new\n"
    assert stat.S_ISDIR(data.stat().st_mode)


@AS_ROOT
async def test_a_volume_is_mounted_where_it_is_asked_for_and_read_only(node, data, tmp_path):
    where = tmp_path / "data"
    mounts = (Mount(volume="sets", path=str(where), read_only=True),)
    script = f"cat {where}/x $HEADRACE_VOLUME_SETS/x; touch {where}/y || echo no"
    said, _ = await ran(node, "train", *shell(script), mounts=mounts, volumes={"sets": str(data)})
    assert said.startswith("datadata")
    assert said.endswith("no\n")
    assert list(where.iterdir()) == []


@pytest.mark.parametrize("own", ["/dev", "/proc/self", "/run"])
async def test_a_volume_that_leads_into_what_is_the_machines_own_is_not_given(node, tmp_path, own):
    way = tmp_path / "way"
    way.symlink_to(own)
    mounts = (Mount(volume="sets", path="data"),)
    _, end = await ran(node, "train", "true", mounts=mounts, volumes={"sets": str(way)})
    assert end.message.startswith(f"cannot start: volumes: volume sets cannot be at {way}: /")
    assert end.message.endswith("is the node's own, which no job sees")


async def test_a_volume_that_is_gone_from_the_node_is_the_reason(node, data):
    mounts = (Mount(volume="sets", path="data"),)
    shutil.rmtree(data)
    _, end = await ran(node, "train", "true", mounts=mounts, volumes={"sets": str(data)})
    assert end.reason == "start-failed"
    assert end.message == (
        f"cannot start: volumes: volume sets is not on this node: there is no folder {data}"
    )


async def test_a_platform_that_sends_paths_out_of_the_folder_is_not_believed(
    world, node, tmp_path, monkeypatch
):
    await left(world, node, "train", WRITE, outputs=("model",))
    evil = Manifest(files=(File("../evil", 1, "0" * 64),))
    monkeypatch.setattr(outputs_api, "_manifest", lambda *_: evil)
    with pytest.raises(ClientError, match="leads out of the folder"):
        await world.call(world.client().outputs, "train", tmp_path / "got")
    assert sorted(path.name for path in tmp_path.rglob("evil")) == []
