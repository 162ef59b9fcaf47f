"""A node that is cut off for seconds, for longer than a lease, and for ever: kept or replaced."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.agent_faults import network
from tests.agent_faults.fleet import EXPIRES_S, REPLACE_AFTER_S, Fleet
from tests.conftest import NatsServer

from headrace.events.attempts import AttemptExpired, AttemptStarted
from headrace.events.nodes import NodeHeard, NodeSilent

pytestmark = [
    pytest.mark.agent_faults,
    pytest.mark.skipif(not network.IS_POSSIBLE, reason=network.WHY_NOT),
]
UNTIL_TOLD = "while [ ! -e go ]; do sleep 0.05; done; exit 0"
STUBBORN = "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep 1000\" &); sleep 1000"


@pytest.fixture
async def fleet(tmp_path: Path, own_nats: NatsServer) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, own_nats.url)
    try:
        await fleet.start()
        yield fleet
    finally:
        await fleet.close()
    assert fleet.violations() == []


def go(fleet: Fleet, node: str, job: str, attempt: int) -> None:
    (fleet.folder_of(node, job, attempt) / "work" / "go").touch()


async def until_silent(fleet: Fleet, node: str) -> None:
    await fleet.until(lambda: fleet.host.state.machines[node].silent, f"{node} is silent")


@pytest.mark.parametrize("replace_after_s", [0, REPLACE_AFTER_S], ids=["keep", "replace_after"])
async def test_seconds_without_contact_change_nothing(fleet: Fleet, replace_after_s: int) -> None:
    await fleet.submit_job("a", UNTIL_TOLD, replace_after_s)
    node, attempt = await fleet.started("a")
    machine = fleet.nodes[node]

    machine.network.cut()
    await until_silent(fleet, node)
    machine.network.heal()
    await fleet.until(lambda: fleet.events(NodeHeard), "it is heard again")
    go(fleet, node, "a", attempt)

    await fleet.until(lambda: fleet.has_ended("a"), "the job ends")
    assert fleet.ran("a") == ["start 1", "end 1"]


async def test_who_is_kept_runs_on_for_longer_than_any_lease(fleet: Fleet) -> None:
    await fleet.submit_job("a", UNTIL_TOLD)
    await fleet.submit_job("b", UNTIL_TOLD, REPLACE_AFTER_S)
    (node, _), (other, _) = await fleet.started("a"), await fleet.started("b")

    fleet.nodes[node].network.cut()
    await until_silent(fleet, node)
    await asyncio.sleep(EXPIRES_S)  # what is meant not to happen has no sign to wait for
    assert fleet.worker("a") == (node, 1)
    assert not fleet.events(AttemptExpired)
    fleet.nodes[node].network.heal()
    go(fleet, node, "a", 1)
    go(fleet, other, "b", 1)

    await fleet.until(lambda: fleet.has_ended("a") and fleet.has_ended("b"), "both jobs end")
    assert fleet.ran("a") == ["start 1", "end 1"]


async def test_who_is_replaced_ends_there_before_it_starts_elsewhere(fleet: Fleet) -> None:
    await fleet.submit_job("a", STUBBORN, REPLACE_AFTER_S)
    first, _ = await fleet.started("a")

    fleet.nodes[first].network.cut()
    await fleet.until(lambda: fleet.worker("a") != (first, 1), "its lease ends")
    (second, attempt) = await fleet.started("a")
    assert (second != first, attempt) == (True, 2)
    assert fleet.ran("a") == ["start 1", "end 1", "start 2"]
    fleet.nodes[first].network.heal()
    await fleet.until(lambda: not fleet.host.state.machines[first].silent, "it is heard again")
    await fleet.submit_job("b", UNTIL_TOLD)
    assert await fleet.started("b") == (first, 1)
    go(fleet, first, "b", 1)
    await fleet.until(lambda: fleet.has_ended("b"), "the first machine is used again")
    await fleet.until(lambda: fleet.host.state.machines[first].recorded >= 4, "all is reported")

    assert fleet.worker("a") == (second, 2)


async def test_a_machine_cut_off_for_ever_without_an_agent_ends_what_is_replaced(
    fleet: Fleet,
) -> None:
    await fleet.submit_job("a", STUBBORN, REPLACE_AFTER_S)
    first, _ = await fleet.started("a")

    fleet.nodes[first].network.cut()
    fleet.nodes[first].kill_agent()

    await fleet.until(lambda: fleet.worker("a") != (first, 1), "its lease ends")
    await fleet.started("a")
    assert fleet.ran("a") == ["start 1", "end 1", "start 2"]


async def test_a_machine_cut_off_for_ever_keeps_what_is_kept_until_it_is_fenced(
    fleet: Fleet,
) -> None:
    await fleet.submit_job("a", UNTIL_TOLD)
    first, _ = await fleet.started("a")
    await fleet.nodes[first].power_off()
    await until_silent(fleet, first)
    assert fleet.worker("a") == (first, 1)

    await fleet.fence(first)
    await fleet.until(lambda: fleet.worker("a") != (first, 1), "the fence is in force")

    second, attempt = await fleet.started("a")
    assert (second != first, attempt) == (True, 2)
    go(fleet, second, "a", 2)
    await fleet.until(lambda: fleet.has_ended("a"), "the job ends")


async def test_a_machine_that_sleeps_past_its_lease_ends_what_it_ran_on_waking(
    fleet: Fleet,
) -> None:
    await fleet.submit_job("a", STUBBORN, REPLACE_AFTER_S)
    first, _ = await fleet.started("a")
    agent = fleet.nodes[first].agent
    assert agent is not None

    os.kill(agent.pid, signal.SIGSTOP)
    await fleet.until(lambda: fleet.worker("a") != (first, 1), "its lease ends")
    await fleet.started("a")
    os.kill(agent.pid, signal.SIGCONT)

    await fleet.until(lambda: not fleet.host.state.machines[first].silent, "it is heard again")
    assert fleet.ran("a") == ["start 1", "end 1", "start 2"]


async def test_when_all_go_silent_together_nobody_is_replaced(fleet: Fleet) -> None:
    await fleet.submit_job("a", UNTIL_TOLD)
    await fleet.submit_job("b", UNTIL_TOLD, REPLACE_AFTER_S)
    where = {job: (await fleet.started(job))[0] for job in ("a", "b")}
    for machine in fleet.nodes.values():
        machine.network.cut()
    await fleet.until(lambda: len(fleet.events(NodeSilent)) >= 2, "both are silent")
    lease_us = (REPLACE_AFTER_S + 4) * 1_000_000
    node = where["b"]
    await fleet.until(
        lambda: fleet.host.state.machines[node].silent_us >= lease_us, "the lease has ended"
    )
    assert not fleet.events(AttemptExpired)
    for machine in fleet.nodes.values():
        machine.network.heal()
    await fleet.until(lambda: len(fleet.events(AttemptStarted)) == 3, "b starts again")
    for job in ("a", "b"):
        worker = await fleet.started(job)
        go(fleet, worker[0], job, worker[1])
    await fleet.until(lambda: fleet.has_ended("a") and fleet.has_ended("b"), "both jobs end")
    assert fleet.ran("a") == ["start 1", "end 1"]
