"""One container engine for the run, and a node whose workers may run in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.containers.engines import BUSYBOX, DockerEngine
from tests.node_agent.rig import Node
from tests.open_folders import open_folder

from headrace.node_agent import agent
from headrace.node_agent.executors import executors
from headrace.node_agent.isolation import Processes
from headrace.node_agent.isolation.cgroups import probe_loopback

IMAGES_BYTES_MAX = 6_000_000  # room for three of those that are fetched here
GROUP = f"headrace-containers-{os.getpid()}"
CGROUPFS = {"exec-opts": ["native.cgroupdriver=cgroupfs"]}  # also where systemd runs
WHAT_IT_NEEDS = "make system-deps (as root) installs docker.io and busybox-static"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Where jobs of this test's platform may write, whichever account they run as."""
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="session", autouse=True)
def _group() -> Iterator[None]:
    """The node's, which the engine makes in every hierarchy of version 1: none is left."""
    yield
    for hierarchy in ("/sys/fs/cgroup", *Path("/sys/fs/cgroup").glob("*/")):
        with contextlib.suppress(FileNotFoundError):
            Path(hierarchy, GROUP).rmdir()


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerEngine]:
    made = made_engine({"live-restore": True})
    yield made
    made.close()


@pytest.fixture
def mortal_engine() -> Iterator[DockerEngine]:
    """One whose containers end with it."""
    made = made_engine({})
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
    node.loopback = probe_loopback(GROUP, Processes())
    assert node.loopback
    node.hidden = (os.path.dirname(engine.address.removeprefix("unix://")),)
    node.machine = lambda given: executors(given, engine.address, images_bytes_max=IMAGES_BYTES_MAX)
    await node.placement.open()
    await node.start()
    await node.ready()
    return node


def lacking() -> str:
    """What this machine lacks for an engine; empty if nothing."""
    has_engine = shutil.which("dockerd") and BUSYBOX.exists() and os.geteuid() == 0
    return "" if has_engine else WHAT_IT_NEEDS


def made_engine(settings: dict[str, Any], files: dict[str, Path] | None = None) -> DockerEngine:
    """One that runs, with an image; see `DockerEngine`."""
    if lack := lacking():
        pytest.fail(f"NOTHING WAS TESTED: {lack}")
    folder = Path(tempfile.mkdtemp(prefix="headrace-docker-"))
    folder.chmod(0o711)  # mapped users pass through
    engine = DockerEngine(folder, CGROUPFS | settings, files)
    try:
        engine.start()
        engine.make_image()
    except BaseException:
        engine.close()
        raise
    return engine
