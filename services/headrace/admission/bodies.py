"""The bodies of requests that are no job files: their shapes, and what in them can be wrong."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TypeVar

import msgspec

from headrace.bus.credentials import is_user_key
from headrace.bus.sessions import WAYS
from headrace.bus.subjects import token
from headrace.documents.environment import NAME, NAME_RULE
from headrace.documents.names import NAME as NAMES
from headrace.documents.names import NAME_RULE as NAMES_RULE
from headrace.documents.refusing import shown
from headrace.events import Refusal

WHAT_MAX = 255  # characters of a program's name
SEALED_BYTES_MAX = 65_536 + 256  # a secret's 64 KiB and its box

_JOB_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(/[0-9]{1,4})?")


class JobNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`job.cancel`, `job.pause`, `job.resume`."""

    job: str


class WayNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`job.enter`: which job, how, and where to."""

    job: str
    way: str
    rank: int = 0
    what: str = ""


class SecretNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`secret.set`: the value in base64, sealed to the vault's public key."""

    name: str
    sealed: str

    def box(self) -> bytes:
        """The sealed bytes. Raises `ValueError`."""
        return base64.b64decode(self.sealed, validate=True)


class PublisherNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`publisher.create`."""

    name: str
    public_key: str


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`webhook.delete`."""

    name: str


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`project.erase`."""


B = TypeVar("B", JobNamed, WayNamed, SecretNamed, PublisherNamed, Named, Nothing)


def decoded(body: bytes, kind: type[B]) -> B | Refusal:
    """The body, if it is well formed."""
    try:
        asked = msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        names = ", ".join(kind.__struct_fields__) or "nothing in it"
        rule = shown(error) or "cannot be read"
        return Refusal(field="request", rule=rule, instead=f"a JSON object with {names}")
    return _wrong(asked) or asked


def _wrong(
    asked: JobNamed | WayNamed | SecretNamed | PublisherNamed | Named | Nothing,
) -> Refusal | None:
    if isinstance(asked, JobNamed | WayNamed) and not _JOB_ID.fullmatch(asked.job):
        return Refusal(field="job", value=shown(asked.job), rule="is not a job's id")
    if isinstance(asked, WayNamed) and (asked.way not in WAYS or len(asked.what) > WHAT_MAX):
        rule = f"is none of {', '.join(WAYS)}, or says too much of where to"
        return Refusal(field="way", value=shown(asked.way), rule=rule)
    if isinstance(asked, SecretNamed):
        return _wrong_secret(asked)
    if isinstance(asked, PublisherNamed):
        return _wrong_publisher(asked)
    if isinstance(asked, Named) and not NAMES.fullmatch(asked.name):
        return Refusal(field="name", value=shown(asked.name), rule=NAMES_RULE)
    return None


def _wrong_secret(asked: SecretNamed) -> Refusal | None:
    if not NAME.fullmatch(asked.name):
        return Refusal(field="name", value=shown(asked.name), rule=NAME_RULE)
    try:
        size = len(asked.box())
    except (binascii.Error, ValueError):
        return Refusal(field="sealed", rule="is not base64")
    if not 0 < size <= SEALED_BYTES_MAX:
        return Refusal(field="sealed", rule=f"has 1 to {SEALED_BYTES_MAX} bytes")
    return None


def _wrong_publisher(asked: PublisherNamed) -> Refusal | None:
    try:
        token(asked.name)
    except ValueError:
        rule = "has 1 to 63 of a-z 0-9 and '-', not starting with '-'"
        return Refusal(field="name", value=shown(asked.name), rule=rule)
    if not is_user_key(asked.public_key):
        rule = "is not the public NKey of a user (U…)"
        return Refusal(field="public_key", value=shown(asked.public_key), rule=rule)
    return None
