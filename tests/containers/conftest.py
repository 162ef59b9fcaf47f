"""One container engine for the run, and a node whose workers may run in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.containers.engines import BUSYBOX, DockerEngine
from tests.node_agent.rig import Node
from tests.open_folders import open_folder

from headrace.node_agent import agent
from headrace.node_agent.executors import executors

IMAGES_BYTES_MAX = 6_000_000  # room for three of those that are fetched here
WHAT_IT_NEEDS = "make system-deps (as root) installs docker.io and busybox-static"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Where jobs of this test's platform may write, whichever account they run as."""
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerEngine]:
    made = _made(live_restore=True)
    yield made
    made.close()


@pytest.fixture
def mortal_engine() -> Iterator[DockerEngine]:
    """One whose containers end with it."""
    made = _made(live_restore=False)
    yield made
    made.close()


@pytest.fixture
async def node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: DockerEngine
) -> AsyncIterator[Node]:
    made = await node_on(engine, tmp_path, monkeypatch)
    yield made
    await made.close()


async def node_on(engine: DockerEngine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(agent, "BEFORE_HELLO_S", 0.1)  # nobody answers for an unknown node
    node = Node(folder)
    node.machine = lambda given: executors(given, engine.address, images_bytes_max=IMAGES_BYTES_MAX)
    await node.placement.open()
    await node.start()
    await node.ready()
    return node


def _made(*, live_restore: bool) -> DockerEngine:
    if not shutil.which("dockerd") or not BUSYBOX.exists():
        pytest.fail(f"NOTHING WAS TESTED: {WHAT_IT_NEEDS}")
    engine = DockerEngine(
        Path(tempfile.mkdtemp(prefix="headrace-docker-")), live_restore=live_restore
    )
    try:
        engine.start()
        engine.make_image()
    except BaseException:
        engine.close()
        raise
    return engine
