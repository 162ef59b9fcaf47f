"""Many small contents in one file: what a folder of thousands of files costs is files made, not bytes.

    256 + 1 numbers    how many contents have names below those that begin with that byte
    a line per content its name, where it is and how long, in order of the names
    the contents       one after the other

Rule: a pack is written once and never changed. It is reached through a link per content, so that it
goes when the last of its contents goes.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Mapping

PACKED_BYTES_MAX = 1_048_576  # of a content that is packed; a larger one has a file of its own
PACK_BYTES_MAX = 16_777_216
PACK_FILES_MAX = 8_192  # far below what file systems allow of links to one file
PACK_FILES_MIN = 16  # fewer have files of their own

_FAN = struct.Struct(">257I")
_BETWEEN = struct.Struct(">II")
_LINE = struct.Struct(">32sQQ")
_COUNT_BYTES = 4
_PACK_FILE_BYTES_MAX = _FAN.size + _LINE.size * PACK_FILES_MAX + PACK_BYTES_MAX


Extent = tuple[int, int]  # where in its pack a content begins, and its size


def in_packs(contents: Mapping[str, bytes]) -> tuple[list[dict[str, bytes]], list[str]]:
    """These contents in packs, and those that get files of their own: large ones, and a few."""
    alone = [name for name, data in contents.items() if len(data) > PACKED_BYTES_MAX]
    if len(contents) - len(alone) < PACK_FILES_MIN:
        return [], list(contents)
    packs: list[dict[str, bytes]] = [{}]
    size = 0
    for name, data in contents.items():
        if len(data) > PACKED_BYTES_MAX:
            continue
        if size + len(data) > PACK_BYTES_MAX or len(packs[-1]) == PACK_FILES_MAX:
            packs.append({})
            size = 0
        packs[-1][name] = data
        size += len(data)
    return packs, alone


def read_packed(pack: str, digest: str, offset: int, bytes_max: int) -> bytes:
    """A part of a content; nothing of one that a damaged pack has lost. Raises `OSError`."""
    file = os.open(pack, os.O_RDONLY)
    try:
        at, size = _extent_of(file, digest)
        return os.pread(file, max(0, min(bytes_max, size - offset)), at + offset)
    finally:
        os.close(file)


def size_in_pack(pack: str, digest: str) -> int:
    """The bytes of this content in its pack. Raises `OSError`."""
    file = os.open(pack, os.O_RDONLY)
    try:
        return _extent_of(file, digest)[1]
    finally:
        os.close(file)


def pack_of(contents: Mapping[str, bytes]) -> list[bytes]:
    """The pieces of the file that has these contents."""
    names = sorted(contents)
    raw = [bytes.fromhex(name) for name in names]
    counts = [bisect_left(raw, bytes([first])) for first in range(256)]
    at = _FAN.size + _LINE.size * len(raw)
    lines = []
    for name, digest in zip(names, raw, strict=True):
        lines.append(_LINE.pack(digest, at, len(contents[name])))
        at += len(contents[name])
    return [_FAN.pack(*counts, len(raw)), *lines, *(contents[name] for name in names)]


def _extent_of(file: int, digest: str) -> Extent:
    wanted = bytes.fromhex(digest)
    fan = os.pread(file, _BETWEEN.size, wanted[0] * _COUNT_BYTES)
    if len(fan) == _BETWEEN.size:
        first, end = _BETWEEN.unpack(fan)
        lines_max = min(max(0, end - first), PACK_FILES_MAX)
        lines = os.pread(file, lines_max * _LINE.size, _FAN.size + first * _LINE.size)
        for at in range(0, len(lines) - _LINE.size + 1, _LINE.size):
            name, offset, size = _LINE.unpack_from(lines, at)
            if name == wanted and max(offset, size) <= _PACK_FILE_BYTES_MAX:
                return offset, size
    return 0, 0
