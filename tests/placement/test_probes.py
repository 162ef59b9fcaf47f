"""Whom a node may measure the network to."""

import msgspec
import pytest

from headrace import vault
from headrace.bus.agents import ProbePass
from headrace.events.nodes import NodeSilent
from headrace.events.pools import Pool, PoolConfigured
from headrace.placement.introductions import introduction
from headrace.placement.probe_rules import peers_of


@pytest.fixture
def racks(empty_history):
    """Two rooms of two racks of two nodes, and one node that is nowhere."""
    history = empty_history
    pool = Pool(pool="train", label="use", value="train", topology=("room", "rack"))
    history.given(PoolConfigured(name="train", pool=pool, change="created"))
    for number in range(8):
        labels = {"use": "train", "room": f"r{number // 4}", "rack": f"k{number // 2 % 2}"}
        history.node(f"n{number}", gpus=1, labels=labels, probe_port=4000 + number)
    history.node("n8", gpus=1, probe_port=4008)
    return history


def asked_by(history, node):
    return {level: said.node for level, said in peers_of(history.state, node).items()}


def test_a_node_asks_the_next_one_at_each_level(racks):
    assert asked_by(racks, "n0") == {"fleet": "n4", "room": "n2", "rack": "n1"}
    assert asked_by(racks, "n1") == {"fleet": "n4", "room": "n2", "rack": "n0"}
    assert asked_by(racks, "n7") == {"fleet": "n8", "room": "n4", "rack": "n6"}


def test_racks_of_one_name_in_two_rooms_are_two(racks):
    assert asked_by(racks, "n2")["rack"] == "n3"


def test_a_node_outside_every_pool_asks_one_of_the_fleet(racks):
    assert asked_by(racks, "n8") == {"fleet": "n0"}


def test_silent_nodes_and_those_that_do_not_serve_are_not_asked(racks):
    racks.given(NodeSilent(node="n1"))
    racks.node("n2", gpus=1, labels={"use": "train", "room": "r0", "rack": "k1"})
    assert asked_by(racks, "n0") == {"fleet": "n4", "room": "n3"}


def test_an_unknown_node_and_one_alone_ask_nobody(racks, history):
    assert peers_of(racks.state, "elsewhere") == {}
    assert peers_of(history.state, "n1") == {}


def test_each_peer_is_named_with_a_pass_that_placement_signed(racks):
    private, public = vault.new_signing_keys()
    found = introduction(racks.state, "n0", private).peers
    assert [(peer.node, peer.level, peer.port) for peer in found] == [
        ("n4", "fleet", 4004), ("n2", "room", 4002), ("n1", "rack", 4001),
    ]  # fmt: skip
    for peer in found:
        assert vault.verify(public, peer.signed.document, peer.signed.signature)
        allowed = msgspec.json.decode(peer.signed.document, type=ProbePass)
        assert (allowed.node, allowed.peer) == ("n0", peer.node)
    assert introduction(racks.state, "elsewhere", private).peers == ()
