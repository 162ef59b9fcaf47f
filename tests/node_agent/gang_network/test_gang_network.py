"""A gang's ports on a machine with a network of its own, asked for from two addresses."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from tests.agent_faults.network import IS_POSSIBLE, WHY_NOT, Namespace
from tests.node_agent.rig import Node, until

from headrace.bus.agents import Assignment
from headrace.node_agent.gang_network import rules
from headrace.node_agent.gang_network.network import GangNetwork, probe

PORT = 20_000
LISTEN = f"""
import socket
both = [socket.create_server(("", port)) for port in ({PORT}, {PORT + 9})]
print("listens", flush=True)
input()
"""
WORKER = Assignment(job="a", attempt=1, rank=0, position=1, project="p", port=PORT, ports=3)


def member(*peers: str) -> Assignment:
    return msgspec.structs.replace(WORKER, peers=peers)


@pytest.fixture
def machine() -> Iterator[Namespace]:
    """A network with somebody who listens at a worker's port and at another one."""
    if not IS_POSSIBLE or shutil.which("nft") is None:
        pytest.skip(WHY_NOT)
    made = Namespace(5)
    try:
        command = [*made.prefix, sys.executable, "-c", LISTEN]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as listening:
            assert listening.stdout is not None
            assert listening.stdout.readline() == b"listens\n"
            yield made
            listening.kill()
    finally:
        made.remove()


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def is_reached(machine: Namespace, port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection((machine.own, port), timeout=60.0).close()
        return True
    return False


def tables(machine: Namespace) -> str:
    command = [*machine.prefix, "nft", "list", "tables"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def settled(network: GangNetwork, *assignments: Assignment) -> None:
    network.follow(assignments)
    done = asyncio.Event()
    for assignment in assignments:
        if not network.is_settled(assignment, done.set):
            await asyncio.wait_for(done.wait(), 60.0)
    await until(lambda: network._changing is None, "the ruleset is in force")


async def test_a_gangs_ports_are_reached_from_its_own_nodes_alone(machine: Namespace) -> None:
    network = probe("headrace-n1", prefix=machine.prefix)
    assert is_reached(machine, PORT)
    await settled(network, stranger := member("192.0.2.7", machine.own))
    assert network.holds(stranger)
    assert (is_reached(machine, PORT), is_reached(machine, PORT + 9)) == (False, True)
    await settled(network, grown := member("192.0.2.7", machine.host, machine.own))
    assert network.holds(grown)
    assert is_reached(machine, PORT)
    await settled(network)
    assert is_reached(machine, PORT)
    assert tables(machine) == ""
    await network.close()


async def test_a_gang_whose_nodes_are_not_known_is_not_fenced_and_does_not_say_so(
    machine: Namespace,
) -> None:
    network = probe("headrace-n1", prefix=machine.prefix)
    await settled(network, nowhere := member("nowhere.invalid", machine.own))
    assert not network.holds(nowhere)
    assert is_reached(machine, PORT)


async def test_the_record_says_whose_ports_are_fenced(node: Node, machine: Namespace) -> None:
    node.network = probe("headrace-n1", prefix=machine.prefix)
    await node.kill_agent()
    await node.start()
    await node.ready()
    ports = {"port": free_port(), "ports": 1}
    alone = await node.placement.want("alone", "/bin/true")
    gang = await node.placement.want("gang", "/bin/true", peers=("::1",), **ports)
    for key, level in ((alone, ""), (gang, "+peers")):
        await node.placement.ended(key)
        started = node.placement.of(key)[0]
        assert (started.isolation, started.message) == (f"processes{node.kept_apart}{level}", "")


def test_only_members_of_gangs_have_a_part() -> None:
    assert rules.parts_of([WORKER, member("10.0.0.1")]) == (
        rules.Part(PORT, PORT + 2, ("10.0.0.1",)),
    )
