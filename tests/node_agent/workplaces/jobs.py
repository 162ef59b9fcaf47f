"""Jobs of these tests: where their folders are, and how they are run to their ends."""

from pathlib import Path

from tests.gateway.histories import (
    admitted,
    eligible,
    finished,
    joined,
    placed,
    released,
    requested,
    worker_exited,
)

from headrace.bundles.manifest import encode_manifest, name_of
from headrace.bundles.packing import pack


def kept(world, folder, project="vision"):
    """The folder as the gateway has it; its name."""
    manifest = pack(folder, {}).manifest
    objects = world.gateway.keeper.of(project)
    for file in manifest.files:
        objects.put(file.digest, (folder / file.path).read_bytes())
    assert objects.put_tree(encode_manifest(manifest)) == []
    return f"sha256:{name_of(encode_manifest(manifest))}"


def spoil(path):
    Path(path).write_bytes(b"0ne")


async def place(world, *jobs, project="vision"):
    """The log has these jobs on the node."""
    for job in jobs:
        of = {"job": job, "project": project}
        await world.append(joined(), requested(**of), admitted(**of), eligible(**of), placed(**of))


async def ran(node, job, *command, **of):
    """What a worker wrote, and how it ended."""
    key = await node.placement.want(job, *command, **of)
    end = await node.placement.ended(key)
    return (await node.placement.logs(key)).data.decode(), end


def shell(script):
    return ["/bin/sh", "-euc", script]


async def left(world, node, job, script, project="vision", **of):
    """Run a job to its end, in the log too; how it ended."""
    await place(world, job, project=project)
    said, end = await ran(node, job, *shell(script), project=project, **of)
    about = {"job": job, "project": project}
    kept_of = {"outputs": end.outputs, "outputs_files": end.outputs_files}
    await world.append(worker_exited(**about, **kept_of), released(**about), finished(**about))
    await world.gateway.follower.reached(len(world.log.events))
    return said, end
