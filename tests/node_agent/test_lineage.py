"""A node whose head goes on from an older copy of its log: with what runs, and what has ended."""

from __future__ import annotations

import shutil

import pytest
from tests.node_agent.rig import Node, until
from tests.node_agent.test_faults import SH, UNTIL_TOLD, tell

OLD, NEW = "a" * 32, "b" * 32
SLOW_TO_END = (
    "trap 'touch asked; while [ ! -e go ]; do sleep 0.05; done; exit 7' TERM;"
    " while :; do sleep 0.05; done"
)


async def followed(node: Node, *, position: int = 5) -> None:
    await node.placement.begin(NEW, 2, position=position)
    await until(lambda: node.journal.lineage.name == NEW and node.agent.is_ready, "it follows")


async def test_what_the_older_log_knows_runs_on_and_its_end_is_heard(node: Node) -> None:
    await node.placement.begin(OLD, 1, position=100)
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD, position=3)
    await node.placement.started(key)
    node.placement.reports.clear()
    shim = node.shim(key)

    await followed(node)
    assert node.shim(key) == shim
    await node.placement.started(key)  # said anew: the copy may not have it
    tell(node, key)
    end = await node.placement.ended(key)
    assert (end.reason, end.exit_code) == ("exited", 7)


async def test_what_the_older_log_does_not_know_runs_on_until_it_is_ordered_to_end(
    node: Node,
) -> None:
    await node.placement.begin(OLD, 1, position=100)
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)
    wanted = node.placement.wanted.pop(key)

    await followed(node)
    assert node.placement.running == (key,), "it is said to run"
    assert node.shim(key)
    assert node.agent.condition()["strays"] == 1

    node.placement.wanted[key] = wanted
    await node.placement.stop(key)
    assert (await node.placement.ended(key)).reason == "stopped"


async def test_that_it_has_ended_is_heard_also_when_it_took_a_while(node: Node) -> None:
    await node.placement.begin(OLD, 1, position=100)
    key = await node.placement.want("job-1", SH, "-c", SLOW_TO_END)
    await node.placement.started(key)
    wanted = node.placement.wanted.pop(key)
    await followed(node)
    node.placement.wanted[key] = wanted
    await node.placement.stop(key, grace_s=60)
    await until((node.folder(key) / "work" / "asked").exists, "it is asked to end")
    beats = len(node.placement.signals)
    await until(lambda: len(node.placement.signals) > beats + 1, "it was looked at while it ends")
    assert node.placement.running == (key,)
    tell(node, key)
    await until(lambda: node.placement.running == (), "its end is said")


@pytest.mark.parametrize("is_swept", [False, True])
async def test_what_had_ended_is_said_again_and_never_started_again(
    node: Node, is_swept: bool
) -> None:
    await node.placement.begin(OLD, 1, position=100)
    key = await node.placement.want("job-1", SH, "-c", "exit 4")
    wanted = node.placement.wanted[key]
    await node.placement.ended(key)
    await node.placement.tell()
    await until(lambda: not node.journal.attempts(), "it is forgotten")
    node.placement.reports.clear()
    if is_swept:
        shutil.rmtree(node.folder(key))

    node.placement.wanted[key] = wanted
    await followed(node, position=101)
    end = await node.placement.ended(key)
    said = ("lost", 0) if is_swept else ("exited", 4)
    assert (end.reason, end.exit_code) == said
    assert node.journal_lines(key) == ["start", "end"], "once"


async def test_new_work_starts_below_positions_that_were_obeyed_before(node: Node) -> None:
    await node.placement.begin(OLD, 1, position=5_000)
    await node.placement.tell()
    await until(lambda: node.journal.taken[1] == 5_000, "obeyed")
    await followed(node)
    key = await node.placement.want("job-2", SH, "-c", "exit 3")
    assert (await node.placement.ended(key)).exit_code == 3


async def test_it_follows_to_later_lines_only_and_remembers_that(node: Node) -> None:
    await node.placement.begin(OLD, 1, position=100)
    await until(lambda: node.journal.lineage.name == OLD, "it follows")
    await followed(node)
    await node.kill_agent()
    node.placement.answers = False
    await node.start()
    assert node.journal.lineage.name == NEW
    node.placement.answers = True
    await node.placement.begin(OLD, 1, position=9_000)
    await until(lambda: not node.agent.condition()["follows"], "it says that it does not follow")
    assert not node.agent.is_ready
    assert node.journal.lineage.name == NEW
    await node.placement.begin(NEW, 2, position=200)
    await node.ready()
