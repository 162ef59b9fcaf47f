"""What proves who this node is, and who may give it orders.

Rule: the private key never leaves the node's folder; launches are sealed to its public half.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path

import msgspec

from headrace.bus.agents import Assignment, Launch, Signed
from headrace.node_agent.machine import Unopenable
from headrace.node_agent.membership import BOX_KEY
from headrace.trust.order import replace
from headrace.vault import KEY_BYTES, VaultError, new_box_keys, open_with, verify

_LAUNCH = msgspec.json.Decoder(Launch)


class NodeKeys:
    """The node's own key pair, made on first use, and the public key of who grants.

    Raises `OSError` when the folder or the grant key cannot be read.
    """

    def __init__(self, node_dir: Path, keys_dir: Path) -> None:
        self._private, self.public_key = own_keys(node_dir)
        self._grant_key = (keys_dir / "grant.pub").read_bytes()

    @property
    def granter(self) -> str:
        """A short name of the key that signs this node's grants."""
        return hashlib.sha256(self._grant_key).hexdigest()[:16]

    def is_granted(self, signed: Signed) -> bool:
        """Whether placement signed this document."""
        return verify(self._grant_key, signed.document, signed.signature)

    def opened(self, sealed: bytes, context: bytes) -> bytes:
        """What was sealed to this node for that. Raises `VaultError`."""
        return open_with(self._private, sealed, context)

    def unseal(self, assignment: Assignment) -> Launch:
        """The assignment's launch. Raises `Unopenable`."""
        if not assignment.sealed:
            raise Unopenable("what it runs was erased")
        identity = f"{assignment.job}/{assignment.attempt}/{assignment.rank}"
        try:
            opened = open_with(self._private, assignment.sealed, f"launch:{identity}".encode())
            return _LAUNCH.decode(opened)
        except (VaultError, msgspec.MsgspecError) as error:
            raise Unopenable(f"its launch cannot be opened here: {error}") from error


def own_keys(node_dir: Path) -> tuple[bytes, str]:
    """The node's private key, made at the first call, and the public one in base64."""
    private, public = _kept_keys(node_dir)
    return private, base64.b64encode(public).decode()


def _kept_keys(node_dir: Path) -> tuple[bytes, bytes]:
    path = node_dir / BOX_KEY
    try:
        both = base64.b64decode(path.read_bytes(), validate=True)
        if len(both) == 2 * KEY_BYTES:
            return both[:KEY_BYTES], both[KEY_BYTES:]
    except (FileNotFoundError, binascii.Error):
        pass
    private, public = new_box_keys()
    replace(path, base64.b64encode(private + public))
    return private, public
