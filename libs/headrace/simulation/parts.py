"""Where the simulation gets the real services from: by name, as an operator starts them.

Rule: the only place of this package that knows a service's module. Nothing is imported before it is
asked for, and a service never knows that it is simulated.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from headrace.bus.agents import Assignment, Launch, Signed
from headrace.bus.interface import Bus
from headrace.events.nodes import NodeJoined
from headrace.runtime.service import Service
from headrace.simulation.administration import Hardware, devices_of
from headrace.vault import VaultError, open_with, verify

AGENT_POINTS = (
    "agent.before_journal",
    "agent.after_journal",
    "agent.before_start",
    "agent.after_start",
)
DECIDING = ("admission", "quota", "placement", "metrics")


class Keys:
    """The platform's keys, the same in every history."""

    def __init__(self) -> None:
        box = X25519PrivateKey.from_private_bytes(_bytes("box"))
        grant = Ed25519PrivateKey.from_private_bytes(_bytes("grant"))
        self._keys = {
            "master.key": _bytes("master"),
            "vault.key": box.private_bytes_raw(),
            "vault.pub": box.public_key().public_bytes_raw(),
            "grant.key": grant.private_bytes_raw(),
            "grant.pub": grant.public_key().public_bytes_raw(),
        }

    def key(self, name: str) -> bytes:
        """The bytes of a key file."""
        if name == "account.seed":
            return _account_seed()
        return self._keys[name]


def service_of(name: str, keys: Keys, settings: Mapping[str, int]) -> Service:
    """A fresh instance of the service, as its own process would make it, with those of the settings
    that it has.
    """
    surroundings = SimpleNamespace(key=keys.key, instance=name, nats_url="", run_dir="")
    service: Service = import_module(f"headrace.{name}.__main__").service_of(surroundings)
    known = {name: number for name, number in settings.items() if name in service.settings}
    return replace(service, settings={**service.settings, **known})


class AgentParts:
    """The node agent's own types, and the agent itself."""

    def __init__(self) -> None:
        machine = import_module("headrace.node_agent.machine")
        self.key: Callable[..., Any] = machine.AttemptKey
        self.end: Callable[..., Any] = machine.End
        self.seen: Callable[..., Any] = machine.Seen
        self.paused: Callable[..., Any] = machine.Paused

    def journal(self, path: Path, boot: str, passing: Callable[[str], None]) -> Any:
        """The agent's journal in this file, with a crash point on each side of every report."""
        opened = import_module("headrace.node_agent.journal_file").FileJournal.open(
            path, boot=boot, granter="simulated", new_incarnation=lambda: secrets.token_hex(4)
        )
        keep = opened.add

        def add(report: Any) -> None:
            passing("agent.before_journal")
            keep(report)
            passing("agent.after_journal")

        opened.add = add
        return opened

    def lease(self) -> Any:
        """The agent's own lease, which a machine holds as long as it is on."""
        return import_module("headrace.node_agent.lease").Lease()

    def devices(self, node: str, hardware: Hardware) -> Any:
        """The agent's own GPUs that are not there; some of them perhaps cut."""
        simulated = import_module("headrace.node_agent.devices.simulated")
        made = simulated.SimulatedDevices(f"simulated:{hardware.gpus}x{hardware.model}", node)
        found = devices_of(made.list(), hardware.cut)
        made.list = lambda: found
        return made

    def agent(
        self,
        *,
        keys: Keys,
        journal: Any,
        node: NodeJoined,
        bus: Bus,
        machine: Any,
        devices: Any,
        lease: Any,
    ) -> Any:
        """A node's agent; `run` it."""
        module = import_module("headrace.node_agent.agent")
        grant_pub, private = keys.key("grant.pub"), node_key(node.node).private_bytes_raw()

        def is_granted(signed: Signed) -> bool:
            return verify(grant_pub, signed.document, signed.signature)

        def unseal(assignment: Assignment) -> Launch:
            place = f"{assignment.job}/{assignment.attempt}/{assignment.rank}"
            try:
                opened = open_with(private, assignment.sealed, f"launch:{place}".encode())
            except VaultError as error:
                raise module.Unopenable(str(error)) from None
            return msgspec.json.decode(opened, type=Launch)

        given = import_module("headrace.node_agent.surroundings").Surroundings(
            node=node,
            bus=bus,
            machine=machine,
            journal=journal,
            enforcer=import_module("headrace.node_agent.enforcement.enforcer").Enforcer(devices),
            lease=lease,
            is_granted=is_granted,
            unseal=unseal,
            now_us=lambda: int(time.time() * 1_000_000),
        )
        return module.Agent(given)


def node_key(node: str) -> X25519PrivateKey:
    """What launches for this node are sealed to."""
    return X25519PrivateKey.from_private_bytes(_bytes(f"node {node}"))


def _bytes(name: str) -> bytes:
    return hashlib.sha256(f"simulated {name}".encode()).digest()


def _account_seed() -> bytes:
    import nkeys

    return bytes(nkeys.encode_seed(_bytes("account"), nkeys.PREFIX_BYTE_ACCOUNT))
