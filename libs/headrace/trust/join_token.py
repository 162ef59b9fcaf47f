"""The one line that lets a machine join: `hrj_<id>_<secret>` or `hrj_<id>_<secret>.<pin>`.

Rule: the secret is made by who asks for the token and shown once; the platform keeps its digest.
The id is no secret: it stands in lists, messages and events. The pin is the fingerprint of the
platform's certificate.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import NamedTuple

import msgspec

SECRET_BYTES = 32
ID_BYTES = 4

_FORM = re.compile(r"hrj_([0-9a-f]{8})_([A-Za-z0-9_-]{43})(?:\.([A-Za-z0-9_-]{43}))?")


class JoinToken(NamedTuple):
    """A join token in its parts. `pin` is empty where the system's authorities are trusted."""

    id: str
    secret: str
    pin: str = ""

    @property
    def digest(self) -> str:
        """What the platform keeps of the secret: its SHA-256 in hex. 256 random bits need no salt."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def text(self) -> str:
        """As it is shown, once."""
        return f"hrj_{self.id}_{self.secret}" + (f".{self.pin}" if self.pin else "")


class JoinTokenRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A join token; its secret is nowhere. `state` is open, used, expired or revoked; `nodes` are
    those that joined with it or wait to.
    """

    token: str
    state: str
    uses: int
    nodes: list[str] = []
    auto_approve: bool = False
    created_at_us: int
    expires_at_us: int


def new() -> JoinToken:
    """A token that nobody knows yet."""
    return JoinToken(secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES))


def parse(text: str) -> JoinToken:
    """The token in `text`. Raises `ValueError`, without repeating the text."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError("this is no join token; one begins with hrj_ (headrace node token)")
    return JoinToken(found[1], found[2], found[3] or "")
