"""Who this machine is to the platform it joined, kept in the node's folder.

Rule: the seed of the bus login is made here and never leaves the folder; every file is 0600 and is
replaced whole. `member.json` there means that the join token was proven; the token itself is gone.
"""

from __future__ import annotations

import base64
import contextlib
import time
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from headrace.bus import credentials
from headrace.trust import order
from headrace.trust.order import Order, replace

T = TypeVar("T")

MEMBER = "member.json"
SEED, CREDS, GRANT, CERTIFICATE = "node.nkey", "node.creds", "grant.pub", "head.pem"
BOX_KEY = "node.key"  # what is sealed to the node is opened with it


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The node that this machine is, to the platform at `url`; `address` is where others reach it."""

    node: str
    url: str
    address: str
    bus: str = ""  # as the platform said last


class NodeFolder:
    """The files of one node's identity on the bus."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_used(self) -> bool:
        """Whether this machine has joined, or is to."""
        return (self.path / MEMBER).exists() or (self.path / order.FILE).exists()

    def name(self) -> str:
        """The node that this machine is or is to be; empty when nobody said so."""
        try:
            member = self.member()
            return member.node if member is not None else self.ordered().node
        except ValueError:
            return ""

    def member(self) -> Member | None:
        """Who this machine is; None when it has not joined. Raises `ValueError`."""
        return self._read(MEMBER, Member)

    def ordered(self) -> Order:
        """How it is to join. Raises `ValueError`, also when nobody said so."""
        found = self._read(order.FILE, Order)
        if found is None:
            line = "has not joined a platform: headrace node join URL --token …"
            raise ValueError(f"{self.path} {line}")
        return found

    def joined(self, member: Member) -> None:
        """The token was proven: it is not needed any more."""
        self._write(MEMBER, msgspec.json.encode(member))
        self.take_back()

    def take_back(self) -> None:
        """Forget the order, and the token with it."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / order.FILE).unlink()

    def moved(self, url: str, certificate: str) -> None:
        """The platform is at `url` now, with the certificate in that file. Raises `OSError`."""
        member = self.member()
        if member is None or not url:
            return
        if certificate:
            self.keep_certificate(Path(certificate).read_text(encoding="ascii"))
        if member.url != url:
            member = msgspec.structs.replace(member, url=url, bus="")
            self._write(MEMBER, msgspec.json.encode(member))

    def forget_bus(self) -> None:
        """The bus is not where it was: ask the platform where it is now."""
        member = self.member()
        if member is not None:
            self._write(MEMBER, msgspec.json.encode(msgspec.structs.replace(member, bus="")))

    def leave(self) -> None:
        """Forget the membership: the keys are not, or no longer, those of a node."""
        for name in (order.FILE, MEMBER, SEED, CREDS, GRANT, CERTIFICATE, BOX_KEY):
            with contextlib.suppress(FileNotFoundError):
                (self.path / name).unlink()

    def seed(self) -> str:
        """The seed of this node's key, made at the first call."""
        path = self.path / SEED
        if not path.exists():
            self._write(SEED, credentials.new_user_seed().encode())
        return path.read_text(encoding="ascii")

    def sign_in(self, jwt: str, grant_key: str) -> None:
        """Keep what the platform gave: leave to sign in, and whose grants to obey."""
        self._write(GRANT, base64.b64decode(grant_key, validate=True))
        self._write(CREDS, credentials.creds_text(jwt, self.seed()).encode())

    def credential_left_s(self) -> tuple[float, float]:
        """For how long the credential is still good, and for how long it was when it came."""
        path = self.path / CREDS
        try:
            jwt = path.read_text(encoding="ascii").splitlines()[1]
            given_s, now_s = path.stat().st_mtime, time.time()
            expires_s = credentials.expiry_s(jwt)
        except (OSError, IndexError, ValueError):
            return 0.0, 0.0
        return expires_s - now_s, expires_s - given_s

    def keep_certificate(self, pem: str) -> None:
        """The platform's own certificate, as it was pinned in the token."""
        self._write(CERTIFICATE, pem.encode())

    @property
    def certificate(self) -> str:
        """The file with the one certificate the platform has; empty when the system decides."""
        path = self.path / CERTIFICATE
        return str(path) if path.exists() else ""

    @property
    def creds(self) -> str:
        """The file that NATS clients sign in with."""
        return str(self.path / CREDS)

    def _read(self, name: str, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode((self.path / name).read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise ValueError(f"cannot read {self.path / name}: {error}") from None

    def _write(self, name: str, data: bytes) -> None:
        replace(self.path / name, data)


def bus_url(member: Member) -> str:
    """Where the bus is: at the gateway's host, unless the platform named another."""
    parts = urlsplit(member.bus)
    if parts.hostname:
        return member.bus
    host = urlsplit(member.url).hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port}"
