"""What node agents ask the gateway for files: code that jobs work in, and what they leave behind.

Rule: every request names the job that it is for, and is answered only for jobs that are placed on
that node, from their project's files. Requests may be repeated: a content is named by its hash.
Messages are MessagePack.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

PART_BYTES_MAX = 524_288  # of contents in one message
PARTS_MAX = 4_096  # asked for at once
ANSWER_S = 20.0


class Part(msgspec.Struct, frozen=True, array_like=True):
    """`bytes_max` of the content of this name, from `offset` on."""

    digest: str
    offset: int
    bytes_max: int


class GetParts(msgspec.Struct, frozen=True, kw_only=True):
    """`get`: these parts, which come to `PART_BYTES_MAX` at most."""

    job: str
    parts: tuple[Part, ...]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts as far as they go, or which of the contents is not there."""

    parts: tuple[bytes, ...] = ()
    missing: str = ""
    refused: str = ""


class AskMissing(msgspec.Struct, frozen=True, kw_only=True):
    """`missing`: which of these contents has the platform not got?"""

    job: str
    digests: tuple[str, ...]


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Those."""

    digests: tuple[str, ...] = ()
    refused: str = ""


class PutPart(msgspec.Struct, frozen=True, kw_only=True):
    """`put`: a part of a content of `size` bytes. The last part is sent last."""

    job: str
    digest: str
    size: int
    offset: int
    data: bytes


class KeepTree(msgspec.Struct, frozen=True, kw_only=True):
    """`keep`: the manifest of this name was put, and everything in it."""

    job: str
    tree: str


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `put` and `keep`: `refused` says why not."""

    refused: str = ""


class AskKept(msgspec.Struct, frozen=True, kw_only=True):
    """`kept`: which of these trees of a project does the platform still have? What it has not, a
    node forgets too.
    """

    project: str
    trees: tuple[str, ...]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Those; and when the project was erased last, by the log's clock (0: never)."""

    trees: tuple[str, ...] = ()
    erased_at_us: int = 0
    refused: str = ""


class AskOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """`outputs`: what did the job `of`, of the same project, leave behind?"""

    job: str
    of: str


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """The trees of its last attempt by rank, in order."""

    trees: tuple[tuple[int, str], ...] = ()
    refused: str = ""


class SayDamaged(msgspec.Struct, frozen=True, kw_only=True):
    """`damaged`: this content of that tree does not match its name. Whoever sends the folder again
    is asked for it.
    """

    job: str
    tree: str
    digest: str


A = TypeVar("A", bound=msgspec.Struct)


def packed(message: msgspec.Struct) -> bytes:
    """The message's bytes."""
    return msgspec.msgpack.encode(message)


def unpacked(data: bytes, kind: type[A]) -> A:
    """The message in these bytes. Raises `msgspec.MsgspecError`."""
    return msgspec.msgpack.decode(data, type=kind)
