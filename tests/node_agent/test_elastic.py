"""Workers of one attempt that come and go while others of it run on."""

from __future__ import annotations

import os

from tests.node_agent.placement_twin import DEADLINE_S
from tests.node_agent.rig import Node

from headrace.node_agent.machine import AttemptKey

SH = "/bin/sh"
RUNS = "echo $$; while :; do sleep 0.05; done"
TELLS_WHY = "trap 'cat \"$HEADRACE_STOP_REASON_FILE\"; exit 0' TERM; " + RUNS


async def said(node: Node, key: AttemptKey) -> list[str]:
    return (await node.placement.logs(key, wait_s=DEADLINE_S)).data.decode().split()


async def test_a_worker_joins_and_leaves_an_attempt_and_the_others_never_notice(node: Node) -> None:
    first = await node.placement.want("pretrain-b0c4", SH, "-c", RUNS, rank=0)
    await node.placement.started(first)
    (pid,) = node.intent(first).pids
    told = await said(node, first)

    second = await node.placement.want("pretrain-b0c4", SH, "-c", TELLS_WHY, rank=1)
    await node.placement.started(second)
    await said(node, second)
    await node.placement.stop(second, "preempted")
    end = await node.placement.ended(second)

    assert (await said(node, second))[-1] == "preempted"
    assert (end.reason, end.exit_code) == ("stopped", 0)
    assert [report.what for report in node.placement.of(first)] == ["started"]
    assert await said(node, first) == told
    os.kill(pid, 0)


async def test_a_rank_that_comes_after_a_shrink_has_a_folder_and_a_life_of_its_own(
    node: Node,
) -> None:
    first = await node.placement.want("pretrain-b0c4", SH, "-c", RUNS, rank=0)
    second = await node.placement.want("pretrain-b0c4", SH, "-c", RUNS, rank=1)
    await node.placement.started(second)
    await node.placement.stop(second, "preempted")
    await node.placement.ended(second)

    third = await node.placement.want("pretrain-b0c4", SH, "-c", RUNS, rank=2)
    await node.placement.started(third)

    assert node.intent(third).pids != node.intent(second).pids
    assert node.journal_lines(second) == ["start", "end"]
    assert node.journal_lines(third) == ["start"]
    assert node.placement.end_of(first) is None
