"""One real node per test that asks for it, ended with everything it started."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.node_agent.rig import Node

from headrace.node_agent import agent
from headrace.node_agent.isolation import Limits
from headrace.node_agent.isolation.cgroups import probe


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr(agent, "BEFORE_HELLO_S", 0.1)  # nobody answers for an unknown node
    node = Node(tmp_path)
    await node.placement.open()
    await node.start()
    await node.ready()
    yield node
    await node.close()


@pytest.fixture
async def confined(node: Node) -> AsyncIterator[Node]:
    """The node, with the best control groups that this host offers."""
    node.isolation = probe(f"test-{os.getpid()}")
    if node.isolation.level == "processes":
        pytest.skip("this host grants no control groups")
    await node.kill_agent()
    await node.start()
    await node.ready()
    yield node
    await node.close()
    limits = Limits(cpu_milli=1000, memory_bytes=2**30, denied=["c 1:5"])
    for base in {Path(folder).parent for folder, _ in node.isolation.groups("x", limits)}:
        base.rmdir()
