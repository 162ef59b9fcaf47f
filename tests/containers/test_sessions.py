"""Ways into a worker in a container: programs beside it, its output, its ports."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.containers.engines import IMAGE
from tests.containers.looking import SH, wrote
from tests.node_agent.rig import Node, until
from tests.node_agent.test_sessions import heard, session, to_the_end

from headrace.bus.sessions import Frame, size_frame
from headrace.node_agent.supervision import tree

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120)]

SLEEPS = (SH, "-c", "echo up; exec sleep 3600")


async def test_a_program_runs_with_the_workers_environment_and_tells_its_exit_code(
    node: Node,
) -> None:
    key = await node.placement.want("train-1", *SLEEPS, image=IMAGE, env={"LR": "0.1"})
    await wrote(node, key, b"up")

    script = 'echo "$LR $HEADRACE_JOB_ID"; cat; echo wrong >&2; exit 7'
    async with session(node, key, "exec", command=(SH, "-c", script)) as wire:
        await wire.send(Frame("data", b"typed\n"))
        await wire.send(Frame("eof"))
        said = await heard(wire, to_the_end)

    assert said["data"] == b"0.1 train-1\ntyped\n"
    assert (said["error"], said["exit"]) == (b"wrong\n", b"7")


async def test_a_program_on_a_terminal_has_its_size_and_hears_ctrl_c(node: Node) -> None:
    key = await node.placement.want("train-1", *SLEEPS, image=IMAGE)
    await wrote(node, key, b"up")

    script = "trap 'stty size; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    asked = {"command": (SH, "-c", script), "rows": 24, "columns": 80}
    async with session(node, key, "exec", **asked) as wire:
        await heard(wire, lambda said: b"ready" in said["data"])
        await wire.send(size_frame(50, 132))
        await wire.send(Frame("data", b"\x03"))
        rest = await heard(wire, to_the_end)

    assert b"50 132" in rest["data"]
    assert rest["exit"] == b"3"


async def test_who_leaves_ends_the_program_and_not_the_job(node: Node) -> None:
    key = await node.placement.want("train-1", *SLEEPS, image=IMAGE)
    await wrote(node, key, b"up")
    marker = node.intent(key).marker
    before = len(tree.of_attempt(marker, [], []))

    async with session(node, key, "exec", command=(SH, "-c", "echo in; exec sleep 3600")) as wire:
        await heard(wire, lambda said: b"in" in said["data"])
        assert len(tree.of_attempt(marker, [], [])) == before + 1

    await until(lambda: len(tree.of_attempt(marker, [], [])) == before, "the program is gone")
    assert node.placement.end_of(key) is None


async def test_a_port_of_the_worker_is_reached(node: Node) -> None:
    script = "echo up; echo from inside | nc -l -p 23917; sleep 3600"
    key = await node.placement.want("train-1", SH, "-c", script, image=IMAGE)
    await node.placement.started(key)
    table = Path("/proc/net/tcp6")
    await until(lambda: f":{23917:04X} " in table.read_text(), "it listens")

    async with session(node, key, "port-forward", port=23917) as wire:
        said = await heard(wire, lambda said: b"from inside" in said["data"])

    assert said["data"] == b"from inside\n"
