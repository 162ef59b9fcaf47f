"""One real node per test that asks for it, ended with everything it started."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.node_agent.rig import Node

from headrace.node_agent import agent


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr(agent, "BEFORE_HELLO_S", 0.1)  # nobody answers for an unknown node
    node = Node(tmp_path)
    await node.placement.open()
    await node.start()
    await node.ready()
    yield node
    await node.close()
