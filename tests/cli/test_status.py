"""A platform's state by its address: who leads, who stands by, how far, and where everything is."""

import asyncio
import json

import msgspec
from tests.cli.program import in_log
from tests.gateway.histories import joined

from headrace.bus import subjects
from headrace.bus.presence import HEARD_S, Presence

SERVICES = ("admission", "quota", "placement", "metrics")


async def heard(world, *said):
    await world.gateway.instances.listen(world.gateway.bus)
    for presence in said:
        await world.bus.publish(subjects.PRESENCE, msgspec.json.encode(presence))
    await world.bus.publish(subjects.PRESENCE, b"nonsense")
    async with asyncio.timeout(60):
        while len(world.gateway.instances.rows(0)) < len(said):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def leaders(position=7):
    return [
        Presence(service=s, instance=f"{s}-1", position=position, leading=True, epoch=3)
        for s in SERVICES
    ]


async def test_it_shows_leaders_standbys_lag_nodes_and_addresses(world, headrace):
    await in_log(world, joined())
    standby = Presence(
        service="placement", instance="placement-2", position=4, memory_bytes=70_000_000
    )
    await heard(world, *leaders(), standby)
    code, out, _ = await headrace("status", "--url", world.url, "--check")
    assert code == 0, out
    assert world.url in out
    assert "bus at an address that it was not told, connected" in out
    assert "nodes 1 ready" in out
    assert "disk " in out
    rows = [line.split() for line in out.splitlines()]
    assert ["placement", "placement-1", "leads", "(epoch", "3)", "7", "0"] in [
        row[:7] for row in rows
    ]
    assert ["placement", "placement-2", "stands", "by", "4", "3", "events"] in [
        row[:7] for row in rows
    ]
    _, out, _ = await headrace("status", "--url", world.url, "-o", "json")
    assert [row["instance"] for row in json.loads(out)["instances"]][:2] == [
        "admission-1",
        "metrics-1",
    ]


async def test_without_a_platform_here_the_context_is_asked_and_what_is_wrong_said(
    world, headrace, monkeypatch
):
    """`HEADRACE_URL` names it; a service without a leader is what one looks for first."""
    monkeypatch.setattr("headrace.cli.remote_status.SETTLED_S_MAX", 0.0)
    monkeypatch.setattr(world.gateway.keeper, "disk_permille", lambda: 987)
    await heard(world, *leaders()[:-1])
    code, out, _ = await headrace("status", "--check", XDG_DATA_HOME="/nowhere")
    assert code == 1
    assert out.splitlines()[-2:] == [
        "! nobody leads metrics",
        "! the gateway's disk is 99 % full: make room there, for on a full one nothing is taken",
    ]


async def test_a_leader_that_has_not_been_heard_yet_is_waited_for(world, start):
    """The gateway has just started, or leadership goes from one to another."""
    await heard(world, *leaders()[:-1])
    instances, asked = world.gateway.instances, asyncio.Event()

    def rows(head, rows_at=instances.rows):
        asked.set()
        return rows_at(head)

    instances.rows = rows
    program = await start("status", "--url", world.url, "--check")
    await asyncio.wait_for(asked.wait(), 60)
    await world.bus.publish(subjects.PRESENCE, msgspec.json.encode(leaders()[-1]))
    code, out, _ = await program.end()
    assert (code, "nobody leads" in out) == (0, False), out


async def test_an_instance_that_says_nothing_any_more_is_not_there(world):
    now_s = 0.0
    gateway = world.gateway
    gateway.instances._monotonic_s = lambda: now_s
    await heard(world, *leaders())
    assert len(gateway.instances.rows(9)) == len(SERVICES)
    assert {row.lag for row in gateway.instances.rows(9)} == {2}
    now_s = HEARD_S + 1
    assert gateway.instances.rows(9) == []


async def test_with_the_bus_down_run_says_so_at_once(world, start):
    world.broker.disconnect("gateway")
    program = await start("run", "--", "true")
    line = (await asyncio.wait_for(program.complaint(), 60)).decode()
    assert (
        "the gateway is not connected to the bus (NATS), and nothing was asked; trying again"
        in line
    )
    await program.interrupt()
    await program.end()
