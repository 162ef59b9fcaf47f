"""One real node per test that asks for it, ended with everything it started."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.node_agent.rig import Node
from tests.open_folders import open_folder

from headrace.node_agent import agent
from headrace.node_agent.isolation import Isolation, Limits
from headrace.node_agent.isolation.cgroups import Cgroup2, _mounts, probe
from headrace.node_agent.supervision import kernel

BEST = "best"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Where jobs of this test's platform may write, whichever account they run as."""
    with open_folder() as folder:
        yield folder


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr(agent, "BEFORE_HELLO_S", 0.1)  # nobody answers for an unknown node
    node = Node(tmp_path)
    await node.placement.open()
    await node.start()
    await node.ready()
    yield node
    await node.close()


def offered(which: str) -> Isolation:
    """The best control groups of this host; or those of version 2, which a host that has its
    controllers in version 1 still offers: to find processes in, and to keep them from devices.
    """
    name = f"headrace-test-{os.getpid()}"
    if which == BEST:
        isolation = probe(name)
        if isolation.level == "processes":
            pytest.skip("this host grants no control groups")
        return isolation
    tree = _mounts(kernel.read("/proc/self/mountinfo", 1_048_576).decode()).get("cgroup2")
    try:
        os.mkdir(f"{tree}/{name}", 0o711)
    except OSError as error:
        pytest.skip(f"this host grants no group of version 2: {error}")
    return Cgroup2(f"{tree}/{name}")


@pytest.fixture
async def confined(node: Node, request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    """The node, with the control groups that are asked for (`best` unless a test says `v2`)."""
    node.isolation = offered(getattr(request, "param", BEST))
    await node.kill_agent()
    await node.start()
    await node.ready()
    yield node
    await node.close()
    limits = Limits(cpu_milli=1000, memory_bytes=2**30, denied=["c 1:5"])
    for base in {Path(folder).parent for folder, _ in node.isolation.groups("x", limits)}:
        base.rmdir()
