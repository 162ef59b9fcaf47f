"""`replace_after`: an attempt ends with its node's lease, whoever of agent and shim is left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node_agent.rig import Node, kill, until

from headrace.node_agent import lease, leasing
from headrace.node_agent.lease import FileLease
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.protocol import LEASE, lease_line, lease_of

SH = "/bin/sh"
UNTIL_TOLD = "while [ ! -e go ]; do sleep 0.01; done; exit 7"
STUBBORN = "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep 1000\" &); sleep 1000"
BOOT = "0" * 36


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leases are renewed often enough for one of a second."""
    monkeypatch.setattr(leasing, "RENEW_S", 0.1)
    return


async def test_an_attempt_runs_on_while_its_node_is_heard(node: Node) -> None:
    node.placement.renews = False
    await node.kill_agent()
    almost_a_minute_ago_ns = kernel.boottime_ns() - 58 * 10**9
    (node.dir / LEASE).write_bytes(lease_line(node.boot, almost_a_minute_ago_ns))
    await node.start()
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD, replace_after_s=60)
    await node.placement.started(key)
    node.placement.renews = True
    ended_ns = almost_a_minute_ago_ns + 61 * 10**9
    await until(lambda: kernel.boottime_ns() > ended_ns, "its first lease has ended")

    (node.folder(key) / "work" / "go").touch()

    assert (await node.placement.ended(key)).exit_code == 7


async def test_an_attempt_ends_with_its_lease_and_says_why(node: Node) -> None:
    trap = 'trap "cat $HEADRACE_STOP_REASON_FILE; exit 3" TERM'
    script = f"{trap}; echo on; while :; do sleep 0.01; done"
    key = await node.placement.want("job-1", SH, "-c", script, replace_after_s=2)
    kept = await node.placement.want("job-2", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)
    await node.placement.started(kept)
    log = node.folder(key) / "0.log"
    await until(lambda: log.read_text().startswith("on"), "its trap is set")

    node.placement.answers = False
    await until(lambda: not node.shim(key), "the attempt ends")

    assert log.read_text().endswith("disconnected")
    assert node.shim(kept)
    node.placement.answers = True
    end = await node.placement.ended(key)
    assert (end.reason, end.message.startswith("stopped: disconnected")) == ("stopped", True)
    (node.folder(kept) / "work" / "go").touch()
    assert (await node.placement.ended(kept)).exit_code == 7


async def test_the_shim_ends_it_when_agent_and_launcher_are_gone(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", STUBBORN, replace_after_s=1, grace_s=0)
    await node.placement.started(key)
    marker = node.intent(key).marker

    await node.kill_agent()
    kill(node.launcher())

    await until(lambda: not node.shim(key), "the shim ends it")
    assert node.left_of(marker) == []


async def test_the_agent_ends_it_when_the_shim_cannot(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", STUBBORN, replace_after_s=3, grace_s=0)
    await node.placement.started(key)
    marker = node.intent(key).marker
    shim = node.shim(key)
    assert shim, "the lease has ended already"
    os.kill(shim, signal.SIGSTOP)

    node.placement.renews = False

    assert (await node.placement.ended(key)).reason == "stopped"
    assert node.left_of(marker) == []


async def test_an_agent_that_slept_past_the_lease_ends_the_attempt_before_it_renews(
    node: Node,
) -> None:
    key = await node.placement.want("job-1", SH, "-c", STUBBORN, replace_after_s=60, grace_s=0)
    await node.placement.started(key)
    node.placement.renews = False
    await node.kill_agent()
    an_hour_ago_ns = kernel.boottime_ns() - 3600 * 10**9
    (node.dir / LEASE).write_bytes(lease_line(node.boot, an_hour_ago_ns))
    node.placement.renews = True

    await node.start()

    assert (await node.placement.ended(key)).reason == "stopped"


async def test_nothing_starts_without_a_lease_and_starts_with_one(node: Node) -> None:
    node.placement.renews = False
    key = await node.placement.want("job-1", "true", replace_after_s=60)
    other = await node.placement.want("job-2", "true")
    await node.placement.ended(other)
    assert node.journal_lines(key) == []

    node.placement.renews = True

    assert (await node.placement.ended(key)).exit_code == 0


async def test_what_was_replaced_while_the_agent_slept_is_not_started(node: Node) -> None:
    node.placement.renews = False
    key = await node.placement.want("job-1", "true", replace_after_s=60)
    other = await node.placement.want("job-2", "true")
    await node.placement.ended(other)

    del node.placement.wanted[key]  # placement knows that it has expired here
    node.placement.position += 1
    node.placement.renews = True
    last = await node.placement.want("job-3", "true", replace_after_s=60)

    assert (await node.placement.ended(last)).exit_code == 0
    assert node.journal_lines(key) == []


async def test_a_shim_that_is_forked_after_the_lease_ended_starts_nothing(node: Node) -> None:
    await until(lambda: node.agent._machine._link.is_up, "there is a launcher")
    launcher = node.launcher()
    os.kill(launcher, signal.SIGSTOP)
    key = await node.placement.want("job-1", "true", replace_after_s=60)
    await until(lambda: node.agent._machine.look(key), "the launcher is told")
    await node.kill_agent()
    (node.dir / LEASE).write_bytes(lease_line(node.boot, 1))
    os.kill(launcher, signal.SIGCONT)
    await until((node.folder(key) / "exit.json").exists, "the shim ends")
    await node.start()

    end = await node.placement.ended(key)

    assert (end.reason, end.message.startswith("stopped: disconnected")) == ("stopped", True)


async def test_an_older_document_renews_nothing(node: Node) -> None:
    key = await node.placement.want("job-1", "sleep", "1000", replace_after_s=60)
    await node.placement.started(key)
    from_ns = node.lease.from_ns
    future_ns = kernel.boottime_ns() + 10**12
    for changes in ({"epoch": 0}, {"position": 1}, {"incarnation": "another"}):
        node.agent._receive(node.placement.document(renewed_ns=future_ns, **changes))
    await asyncio.sleep(0)

    assert from_ns <= node.lease.from_ns < future_ns


def test_a_lease_is_read_as_it_was_written_and_of_this_boot_only(tmp_path: Path) -> None:
    written = FileLease(tmp_path)
    assert (written.from_ns, written.covers(60)) == (0, False)
    written.renew(kernel.boottime_ns())
    assert FileLease(tmp_path).from_ns == written.from_ns
    assert FileLease(tmp_path).covers(60)
    (tmp_path / LEASE).write_bytes(lease_line(BOOT, kernel.boottime_ns()))
    assert FileLease(tmp_path).from_ns == 0


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", BOOT.encode(), lease_line(BOOT, 5)[:-2], lease_line(BOOT, 5).replace(b"5", b"x")],
)
def test_half_a_line_is_no_lease(line: bytes) -> None:
    assert lease_of(line, BOOT) == 0


def test_a_lease_never_counts_from_an_earlier_moment() -> None:
    held = lease.Lease(10)
    held.renew(5)
    assert held.from_ns == 10
