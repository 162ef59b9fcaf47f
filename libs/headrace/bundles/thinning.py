"""Makes room among kept files: what was used longest ago goes first.

Rule: a folder goes as a whole, and a content when no folder that is left needs it. What somebody
still needs is `pinned`; what has just come may be part of a folder that is being received. A pack of
which less than half is needed is taken apart.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from headrace.bundles.manifest import BadManifest, Manifest, encode_manifest, read_manifest
from headrace.bundles.objects import Damaged, Objects
from headrace.bundles.packs import size_in_pack

YOUNG_S_MAX = 3_600  # for everything else of a folder to arrive
FREE_BYTES_MIN = 5_000_000_000  # left on the disk, which the log may be on too
THINNED_TO_PERMILLE = 800  # of what may be kept, so that not every arrival has to make room

_ANY_BYTES = 1 << 60


def size_of(objects: Objects) -> int:
    """The bytes of all that is here: contents, manifests, and what is being received."""
    found = chain(_contents(objects), _others(objects))
    return sum(about.st_size // about.st_nlink for _, about in found)


def thin(objects: Objects, bytes_max: int, pinned: frozenset[str] = frozenset()) -> int:
    """Drop folders until what is left is well below `bytes_max`; how many bytes are left."""
    if size_of(objects) <= bytes_max:
        return size_of(objects)
    needed: dict[str, int] = {}
    left, room = 0, bytes_max * THINNED_TO_PERMILLE // 1000
    for name in _latest_first(objects):
        manifest = _manifest(objects, name)
        wanted = manifest.digests() if manifest is not None else {}
        size = sum(wanted[digest] for digest in wanted if digest not in needed)
        size += len(encode_manifest(manifest)) if manifest is not None else 0
        if manifest is None or (name not in pinned and left + size > room):
            objects.drop_tree(name)
        else:
            needed |= wanted
            left += size
    return _sweep(objects, needed, time.time() - YOUNG_S_MAX)


def expire(objects: Objects) -> int:
    """Drop contents that no folder has needed for `YOUNG_S_MAX`, and what was not received to its
    end in that time; how many bytes are left.
    """
    needed: dict[str, int] = {}
    for name in objects.trees():
        manifest = _manifest(objects, name)
        needed |= manifest.digests() if manifest is not None else {}
    return _sweep(objects, needed, time.time() - YOUNG_S_MAX)


def forget_before(objects: Objects, at_s: float) -> None:
    """Remove whatever came before that moment (seconds since 1970), used or not."""
    for name in objects.trees():
        with contextlib.suppress(OSError):
            if (objects.root / "trees" / name).stat().st_mtime < at_s:
                objects.drop_tree(name)
    needed: set[str] = set()
    for name in objects.trees():
        manifest = _manifest(objects, name)
        needed |= set(manifest.digests()) if manifest is not None else set()
    for path, about in list(_contents(objects)):
        if about.st_mtime < at_s and _digest_at(path) not in needed:
            path.unlink(missing_ok=True)
    for path in (objects.root / "incoming").glob("*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < at_s:
                path.unlink()
    if not objects.trees() and not any(True for _ in _contents(objects)):
        shutil.rmtree(objects.root, ignore_errors=True)


def _sweep(objects: Objects, needed: dict[str, int], young_s: float) -> int:
    for path, about in list(_contents(objects)):
        if _digest_at(path) not in needed and about.st_mtime <= young_s:
            path.unlink(missing_ok=True)
    _take_apart(objects)
    for path in (objects.root / "incoming").glob("*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < young_s:
                path.unlink()
    return size_of(objects)


def _take_apart(objects: Objects) -> None:
    """Give what is left of packs files of their own, where that is less than half."""
    packs: dict[int, list[Path]] = {}
    sizes: dict[int, int] = {}
    for path, about in _contents(objects, ("packed",)):
        packs.setdefault(about.st_ino, []).append(path)
        sizes[about.st_ino] = about.st_size
    for pack, links in packs.items():
        with contextlib.suppress(OSError):
            left = sum(size_in_pack(str(path), _digest_at(path)) for path in links)
            for path in links if left * 2 < sizes[pack] else ():
                with contextlib.suppress(Damaged):
                    objects.unpack(_digest_at(path))


def _latest_first(objects: Objects) -> list[str]:
    used: list[tuple[float, str]] = []
    for name in objects.trees():
        with contextlib.suppress(OSError):
            used.append(((objects.root / "trees" / name).stat().st_atime, name))
    return [name for _, name in sorted(used, reverse=True)]


def _manifest(objects: Objects, name: str) -> Manifest | None:
    """Without counting as a use."""
    try:
        return read_manifest((objects.root / "trees" / name).read_bytes(), _ANY_BYTES)
    except (OSError, BadManifest):
        return None


def _contents(
    objects: Objects, folders: tuple[str, ...] = ("objects", "packed")
) -> Iterator[tuple[Path, os.stat_result]]:
    for folder in folders:
        for path in (objects.root / folder).glob("??/*"):
            with contextlib.suppress(OSError):
                yield path, path.stat()


def _others(objects: Objects) -> Iterator[tuple[Path, os.stat_result]]:
    for folder in ("trees", "incoming"):
        for path in (objects.root / folder).glob("*"):
            with contextlib.suppress(OSError):
                yield path, path.stat()


def _digest_at(path: Path) -> str:
    return path.parent.name + path.name
