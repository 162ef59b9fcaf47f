"""What a person or a program shows at the gateway: `hra_<id>_<secret>`.

Rule: it is made by who asks for it and shown once; the platform keeps the digest of the whole of it.
The id is no secret: it stands in lists, messages and events.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

SECRET_BYTES = 32
ID_BYTES = 4


class ApiToken(NamedTuple):
    """A token's public id, and all of it."""

    id: str
    text: str

    @property
    def digest(self) -> str:
        """What the platform keeps: the SHA-256 in hex. 256 random bits need no salt."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def new() -> ApiToken:
    """A token that nobody knows yet."""
    token = secrets.token_hex(ID_BYTES)
    return ApiToken(token, f"hra_{token}_{secrets.token_urlsafe(SECRET_BYTES)}")
