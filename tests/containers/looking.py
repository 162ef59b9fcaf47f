"""What the tests of containers share: whose containers there are, and what a worker wrote."""

from __future__ import annotations

from contextlib import closing

from tests.containers.engines import DockerEngine
from tests.node_agent.rig import Node, until

from headrace.node_agent.containers import plan
from headrace.node_agent.machine import AttemptKey

SH = "/bin/sh"
FOREVER = (SH, "-c", "echo up; exec sleep 3600")


def containers_of(engine: DockerEngine, node: Node) -> list[str]:
    with closing(engine.client()) as client:
        found = client.api.containers(all=True, filters={"label": plan.label_of(node.dir)})
        return [container["Names"][0] for container in found]


async def wrote(node: Node, key: AttemptKey, text: bytes) -> None:
    """Wait until the worker's output has this in it."""
    file = node.folder(key) / "0.log"
    await until(lambda: file.exists() and text in file.read_bytes(), f"{text!r} in {file}")
