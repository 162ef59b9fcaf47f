"""What the launcher is and holds between two starts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from tests.node_agent.rig import Node

from headrace.node_agent.isolation.accounts import Accounts
from headrace.node_agent.isolation.cgroups import Cgroup1, name_of, probe, probe_loopback
from headrace.node_agent.supervision import tree
from headrace.node_agent.supervision.confinement import pids_in
from headrace.node_agent.supervision.rehearsal import FOLDER


async def test_nothing_is_left_of_what_it_rehearsed(node: Node) -> None:
    await node.placement.ended(await node.placement.want("job-1", "true"))

    descriptors = f"/proc/{node.launcher()}/fd"
    held = [os.readlink(f"{descriptors}/{name}") for name in os.listdir(descriptors)]

    assert not (node.dir / FOLDER).exists()
    assert [path for path in held if FOLDER in path] == []
    assert tree.children({node.launcher()}) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has groups of version 2 beside version 1")
async def test_it_is_in_the_group_where_its_shims_are_born_until_the_node_is_stopped() -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-node-") as folder:
        os.chmod(folder, 0o711)
        node = Node(Path(folder))
        node.accounts = Accounts()
        name = name_of(node.dir)
        node.isolation = probe(name)
        node.loopback = probe_loopback(name, node.isolation)
        try:
            if not isinstance(node.isolation, Cgroup1) or not node.loopback:
                pytest.skip("this host has no cgroup v2 beside v1")
            await node.placement.open()
            await node.start()
            await node.ready()
            key = await node.placement.want("job-1", "sleep", "1000")
            await node.placement.started(key)

            members = pids_in([node.loopback])

            assert {node.launcher(), node.shim(key), *node.intent(key).pids} == set(members)
        finally:
            await node.close()
        assert not os.access(node.loopback, os.F_OK)
