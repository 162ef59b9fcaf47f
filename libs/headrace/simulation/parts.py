"""Where the simulation gets the real services from: by name, as an operator starts them.

Rule: the only place of this package that knows a service's module. Nothing is imported before it is
asked for, and a service never knows that it is simulated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from headrace.runtime.service import Service

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


def service_of(name: str, keys: Keys) -> Service:
    """A fresh instance of the service, as its own process would make it."""
    surroundings = SimpleNamespace(key=keys.key, instance=name, nats_url="", run_dir="")
    service: Service = import_module(f"headrace.{name}.__main__").service_of(surroundings)
    return service


class AgentParts:
    """The node agent's own types, and the agent itself."""

    def __init__(self) -> None:
        machine = import_module("headrace.node_agent.machine")
        self.key: Callable[..., Any] = machine.AttemptKey
        self.end: Callable[..., Any] = machine.End
        self.seen: Callable[..., Any] = machine.Seen
        self.crash_points: tuple[str, ...] = ()

    def agent(self, *_parts: Any) -> Any:
        """The agent of a machine."""
        raise NotImplementedError


def _bytes(name: str) -> bytes:
    return hashlib.sha256(f"simulated {name}".encode()).digest()


def _account_seed() -> bytes:
    import nkeys

    return bytes(nkeys.encode_seed(_bytes("account"), nkeys.PREFIX_BYTE_ACCOUNT))
