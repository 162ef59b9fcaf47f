"""The bodies of requests that are no job files: their shapes, and what in them can be wrong."""

from __future__ import annotations

import base64
import binascii

from headrace.bus.credentials import is_user_key
from headrace.bus.sessions import WAYS
from headrace.bus.subjects import is_token
from headrace.documents.environment import NAME, NAME_RULE
from headrace.documents.refusing import shown
from headrace.events import Refusal
from headrace.runtime.asking import Asked, job_refusal

WHAT_MAX = 255  # characters of a program's name
SEALED_BYTES_MAX = 65_536 + 256  # a secret's 64 KiB and its box


class WayNamed(Asked, frozen=True, kw_only=True):
    """`job.enter`: which job, how, and where to."""

    job: str
    way: str
    rank: int = 0
    what: str = ""

    def refusal(self) -> Refusal | None:
        if self.way not in WAYS or len(self.what) > WHAT_MAX:
            rule = f"is none of {', '.join(WAYS)}, or says too much of where to"
            return Refusal(field="way", value=shown(self.way), rule=rule)
        return job_refusal(self.job)


class SecretNamed(Asked, frozen=True, kw_only=True):
    """`secret.set`: the value in base64, sealed to the vault's public key."""

    name: str
    sealed: str

    def box(self) -> bytes:
        """The sealed bytes. Raises `ValueError`."""
        return base64.b64decode(self.sealed, validate=True)

    def refusal(self) -> Refusal | None:
        if not NAME.fullmatch(self.name):
            return Refusal(field="name", value=shown(self.name), rule=NAME_RULE)
        try:
            size = len(self.box())
        except (binascii.Error, ValueError):
            return Refusal(field="sealed", rule="is not base64")
        if not 0 < size <= SEALED_BYTES_MAX:
            return Refusal(field="sealed", rule=f"has 1 to {SEALED_BYTES_MAX} bytes")
        return None


class PublisherNamed(Asked, frozen=True, kw_only=True):
    """`publisher.create` and `publisher.renew`: the key signed (base64) `publisher_text` of the
    project, the name and `at_s`, by its own clock.
    """

    name: str
    public_key: str
    at_s: int
    signature: str
    durable: bool = False

    def refusal(self) -> Refusal | None:
        if not is_token(self.name):
            rule = "has 1 to 63 of a-z 0-9 and '-', not starting with '-'"
            return Refusal(field="name", value=shown(self.name), rule=rule)
        if not is_user_key(self.public_key):
            rule = "is not the public NKey of a user (U…)"
            return Refusal(field="public_key", value=shown(self.public_key), rule=rule)
        return None


class Nothing(Asked, frozen=True, kw_only=True):
    """`project.erase`."""
