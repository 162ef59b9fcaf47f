"""Images that are fetched: from a registry that is here, said aloud, kept below a cap."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator

import pytest
from tests.containers.engines import DockerEngine, file_system
from tests.containers.registry import Registry, serving
from tests.node_agent.rig import Node

from headrace.node_agent.containers import images

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120)]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry(file_system(here=os.urandom(100_000)))) as made:
        yield made


async def test_an_image_is_fetched_once_and_its_progress_is_in_the_output(
    node: Node, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "SAY_EVERY_S", 0.0)
    image = f"{registry.address}/team/train"
    first = await node.placement.want("job-1", "echo", "runs", image=image)
    await node.placement.ended(first)
    second = await node.placement.want("job-2", "echo", "runs", image=image)
    await node.placement.ended(second)

    said = (await node.placement.logs(first)).data.decode().splitlines()
    assert said[0] == f"headrace: fetching image {image}"
    assert any(" MiB" in line for line in said[1:-1]), said
    assert said[-1] == "runs"
    assert (await node.placement.logs(second)).data == b"runs\n"


async def test_a_registry_that_asks_who_we_are_is_told_what_docker_login_left(
    node: Node, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, secret = f"{registry.address}/team/secret:latest", base64.b64encode(b"ada:hidden")
    registry.login = f"Basic {secret.decode()}"
    key = await node.placement.want("job-1", "true", image=image)
    refused = await node.placement.ended(key)
    config = {"auths": {registry.address: {"auth": secret.decode()}}}
    (node.dir.parent / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("DOCKER_CONFIG", str(node.dir.parent))
    await node.kill_agent()
    await node.start()
    await node.ready()

    key = await node.placement.want("job-2", "true", image=image)
    end = await node.placement.ended(key)

    assert refused.message.startswith(f"image {image} cannot be pulled: ")
    assert "no basic auth credentials" in refused.message
    assert end.reason == "exited"


async def test_beyond_the_cap_the_longest_unused_goes_and_what_was_here_before_stays(
    node: Node, engine: DockerEngine
) -> None:
    engine.make_image("headrace-test-operators")
    names = []
    for number in range(5):
        content = file_system(**{f"number-{number}": os.urandom(100)})
        with serving(Registry(content)) as registry:
            names.append(f"{registry.address}/team/n{number}:latest")
            key = await node.placement.want(f"job-{number}", "true", image=names[-1])
            end = await node.placement.ended(key)
            assert end.reason == "exited", end.message

    assert engine.has_image("headrace-test-operators")
    assert engine.has_image(names[-1])
    assert not engine.has_image(names[0])


async def test_a_worker_that_is_stopped_while_its_image_comes_never_starts(
    node: Node, registry: Registry
) -> None:
    registry.blobs = {}  # nothing of it ever comes
    image = f"{registry.address}/team/never:latest"
    key = await node.placement.want("job-1", "true", image=image)

    await node.placement.stop(key)
    end = await node.placement.ended(key)

    assert end.reason in ("stopped", "start-failed")
    assert [report.what for report in node.placement.of(key)] == ["exited"]
