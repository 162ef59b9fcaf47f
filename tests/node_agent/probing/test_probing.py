"""Nodes that measure the network to each other, and strangers who would like to."""

from __future__ import annotations

import asyncio
import base64

import msgspec
import pytest
from tests.node_agent.rig import until

from headrace import vault
from headrace.bus import subjects
from headrace.bus.agents import ProbePass, ProbePeer, ProbePeers, Signed
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.node_agent import probing
from headrace.node_agent.identity import NodeKeys
from headrace.node_agent.probing import measuring, prober, serving
from headrace.node_agent.probing.measuring import bytes_per_s
from headrace.node_agent.probing.prober import EVERY_US, Prober
from headrace.node_agent.probing.serving import ProbeServer
from headrace.node_agent.tasks import end_tasks

HOME = "127.0.0.1"


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(serving, "STREAM_S", 0.05)
    monkeypatch.setattr(serving, "PROBE_S_MAX", 60.0)  # a machine may stand still for a while
    monkeypatch.setattr(measuring, "PROBE_S_MAX", 60.0)
    monkeypatch.setattr(prober, "FIRST_S", 0.01)
    monkeypatch.setattr(prober, "AGAIN_S", 0.01)


class Fleet:
    """Placement's key, and two nodes with theirs; `b` serves."""

    def __init__(self, folder):
        self.granter, public = vault.new_signing_keys()
        (folder / "grant.pub").write_bytes(public)
        self.keys = {}
        for name in ("a", "b"):
            (folder / name).mkdir()
            self.keys[name] = NodeKeys(folder / name, folder)
        self.server = ProbeServer("b", self.keys["b"].is_granted)
        self.port = 0

    def peer(self, node="a", to="b", granter=None, port=None):
        allowed = ProbePass(node=node, public_key=self.keys["a"].public_key, peer=to)
        document = msgspec.json.encode(allowed)
        signature = vault.sign(granter or self.granter, document)
        signed = Signed(document=document, signature=signature)
        return ProbePeer(
            node="b", address=HOME, port=port or self.port, level="rack", signed=signed
        )

    async def rate(self, peer, who="a", node="a"):
        return await bytes_per_s(node, peer, self.keys[who].opened)


@pytest.fixture
async def fleet(tmp_path):
    found = Fleet(tmp_path)
    found.port = await found.server.open(HOME)
    yield found
    await found.server.close()


async def test_a_node_with_a_pass_learns_how_fast_its_peer_sends(fleet):
    assert await fleet.rate(fleet.peer()) > 0


async def test_a_node_is_served_again_only_after_a_while(fleet, monkeypatch):
    assert await fleet.rate(fleet.peer())
    assert await fleet.rate(fleet.peer()) == 0
    monkeypatch.setattr(serving, "PAUSE_S", 0.0)
    assert await fleet.rate(fleet.peer())


async def test_a_pass_of_another_platform_is_refused(fleet):
    other, _ = vault.new_signing_keys()
    assert await fleet.rate(fleet.peer(granter=other)) == 0


async def test_a_pass_to_another_peer_is_refused(fleet):
    assert await fleet.rate(fleet.peer(to="c")) == 0


async def test_a_stolen_pass_is_of_no_use_without_its_bearers_key(fleet):
    assert await fleet.rate(fleet.peer(), who="b") == 0
    assert await fleet.rate(fleet.peer())  # which its bearer still can use


async def test_a_wrong_answer_to_the_challenge_gets_nothing(fleet):
    reader, writer = await asyncio.open_connection(HOME, fleet.port)
    writer.write(msgspec.json.encode(fleet.peer().signed) + b"\n")
    assert await reader.readline()
    writer.write(base64.b64encode(bytes(32)) + b"\n")
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize(
    "said", [b"\n", b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"\xff\xfe\n", b"x" * 100_000, b""]
)
async def test_a_stranger_is_let_go_without_an_answer(fleet, said):
    reader, writer = await asyncio.open_connection(HOME, fleet.port)
    writer.write(said)
    if not said:
        writer.write_eof()
    try:
        answer = await reader.read()
    except ConnectionError:
        answer = b""
    assert answer == b""
    writer.close()
    assert await fleet.rate(fleet.peer())


async def test_who_says_nothing_is_cut_off(fleet, monkeypatch):
    monkeypatch.setattr(serving, "PROBE_S_MAX", 0.05)
    reader, writer = await asyncio.open_connection(HOME, fleet.port)
    assert await reader.read() == b""
    writer.close()


async def test_a_peer_that_is_not_there_or_says_nothing_measures_nothing(fleet, monkeypatch):
    monkeypatch.setattr(measuring, "PROBE_S_MAX", 0.1)
    writers = []
    silent = await asyncio.start_server(lambda _reader, writer: writers.append(writer), HOME, 0)
    port = silent.sockets[0].getsockname()[1]
    assert await fleet.rate(fleet.peer(port=port)) == 0
    silent.close()
    for writer in writers:
        writer.close()
    assert await fleet.rate(fleet.peer(port=1)) == 0


async def test_the_second_is_for_the_connection_and_the_stream_together(fleet, monkeypatch):
    limits, timeout = [], asyncio.timeout

    def noted(seconds):
        limits.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr(measuring, "PROBE_S_MAX", 59.87)
    monkeypatch.setattr(asyncio, "timeout", noted)
    assert await fleet.rate(fleet.peer()) > 0
    assert limits.count(59.87) == 1


def test_a_probe_leaves_room_in_its_second_for_what_is_said_before():
    assert 0 < probing.STREAM_S <= probing.PROBE_S_MAX / 2
    assert probing.PROBE_S_MAX <= 1.0


class Asked:
    """A bus on which placement introduces `b`, and a prober of `a`."""

    def __init__(self, fleet, folder):
        broker, self.times, self.now_us = MemoryBroker(), 0, 10 * EVERY_US
        self.placement, self.bus = MemoryBus(broker, "p"), MemoryBus(broker, "a")
        self.task = None
        self.fleet, self.path = fleet, folder / "bandwidth.json"

    def prober(self):
        keys = self.fleet.keys["a"]
        return Prober(
            "a", HOME, self.path, is_granted=keys.is_granted, opened=keys.opened,
            now_us=lambda: self.now_us,
        )  # fmt: skip

    async def introduce(self, message):
        self.times += 1
        answer = msgspec.json.encode(ProbePeers(peers=(self.fleet.peer(),)))
        await self.placement.publish(message.reply, answer)

    async def running(self, found):
        await self.placement.subscribe(subjects.agent_up("a", "peers"), self.introduce)
        self.task = asyncio.create_task(found.run(self.bus))


@pytest.fixture
async def asked(fleet, tmp_path):
    found = Asked(fleet, tmp_path)
    yield found
    await end_tasks([found.task] if found.task is not None else [])


async def test_a_node_measures_when_it_joins_and_keeps_what_it_found(asked):
    found = asked.prober()
    assert (found.bandwidth, found.port) == ({}, 0)
    await asked.running(found)
    await until(lambda: found.bandwidth, "it is measured")
    assert list(found.bandwidth) == ["rack"]
    assert found.bandwidth["rack"] > 0
    assert found.port
    assert asked.prober().bandwidth == found.bandwidth


async def test_a_node_measures_again_after_a_week_and_not_before(asked, monkeypatch):
    monkeypatch.setattr(serving, "PAUSE_S", 0.0)
    found = asked.prober()
    await asked.running(found)
    await until(lambda: found.bandwidth, "it is measured")
    again = asyncio.Event()
    monkeypatch.setattr(asked, "now_us", asked.now_us + EVERY_US - 1)
    asyncio.get_running_loop().call_later(0.1, again.set)  # ten times what it waits
    await again.wait()
    assert asked.times == 1
    asked.now_us += 1
    path = asked.path
    await until(lambda: str(asked.now_us) in path.read_text(), "it is measured again")
    assert asked.times == 2


async def test_a_node_asks_until_somebody_answers(asked):
    await asked.fleet.server.close()
    found = asked.prober()
    await asked.running(found)
    await until(lambda: asked.times >= 3, "it asks again")
    assert found.bandwidth == {}


@pytest.mark.parametrize("content", [b"", b"{", b'{"at_us":"x"}', b"\xff"])
async def test_what_was_kept_and_cannot_be_read_is_measured_anew(asked, content):
    asked.path.write_bytes(content)
    assert asked.prober().bandwidth == {}
