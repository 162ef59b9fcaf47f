"""Which documents an agent obeys: signed by placement, for this node, never an older one."""

from __future__ import annotations

import pytest
from tests.node_agent.rig import Node, until

from headrace import vault
from headrace.bus import subjects


async def test_a_document_that_is_older_says_nothing(node: Node) -> None:
    old = node.placement.document()
    key = await node.placement.want("job-1", "sleep", "1000")
    await node.placement.started(key)
    older = node.placement.document(epoch=0, position=99, assignments=())

    for document in (old, older):
        await node.placement.bus.publish(subjects.agent_down("n1", "desired"), document)
    other = await node.placement.want("job-2", "true")
    await node.placement.ended(other)

    assert node.shim(key)
    assert node.placement.end_of(key) is None


async def test_an_old_document_is_still_old_to_the_next_agent(node: Node) -> None:
    key = await node.placement.want("job-1", "true")
    old = node.placement.document()
    await node.placement.ended(key)
    await node.placement.want("job-2", "sleep", "1000")
    taken = node.placement.position
    await until(lambda: node.journal.taken == (1, taken), "the newer one is obeyed")
    await node.kill_agent()
    await node.start()
    await node.ready()

    await node.placement.bus.publish(subjects.agent_down("n1", "desired"), old)
    other = await node.placement.want("job-3", "true")
    await node.placement.ended(other)

    assert node.journal_lines(key) == ["start", "end"]


async def test_nothing_runs_that_is_not_signed_by_placement(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    honest = node.placement.private
    node.placement.private, _ = vault.new_signing_keys()
    forged = await node.placement.want("forged-1", "true")
    node.placement.wanted.pop(forged)
    node.placement.private = honest

    other = await node.placement.want("job-2", "true")

    await node.placement.ended(other)
    assert not node.folder(forged).exists()
    assert "not signed by placement" in caplog.text


async def test_a_document_for_another_node_is_not_obeyed(node: Node) -> None:
    document = node.placement.document(node="n2", position=1000)
    await node.placement.bus.publish(subjects.agent_down("n1", "desired"), document)

    other = await node.placement.want("job-2", "true")

    assert (await node.placement.ended(other)).exit_code == 0


async def test_a_launch_for_another_node_fails_to_start(node: Node) -> None:
    node.placement.launches.clear()
    node.placement._sealed = lambda key: node.placement.wanted[key]  # nothing sealed at all

    key = await node.placement.want("job-1", "true")

    end = await node.placement.ended(key)
    assert (end.reason, end.message) == ("start-failed", "what it runs was erased")
