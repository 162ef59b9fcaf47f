"""Workers in containers of a real engine: how they start, end, are ended and survive."""

from __future__ import annotations

import pytest
from tests.containers.engines import IMAGE
from tests.node_agent.rig import Node

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120)]

SH = "/bin/sh"


async def test_a_command_that_ends_well_is_reported_started_then_exited(node: Node) -> None:
    key = await node.placement.want("hello-7qk2", "echo", "from the image", image=IMAGE)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("exited", 0, "")
    assert end.isolation == "docker"
    assert [report.what for report in node.placement.of(key)] == ["started", "exited"]
    assert (await node.placement.logs(key)).data == b"from the image\n"
    assert node.journal_lines(key) == ["start", "end"]
