"""What keeps a worker to its share of a device: a slice of its own, MPS, caps, and a watch.

Rule: the record names what really holds a worker, never what was hoped for. A worker that takes more
than its share is ended; its neighbours are not touched.
"""

from __future__ import annotations

from typing import NamedTuple

MIG = "mig"  # it has a slice of its own
MPS = "mps"  # the driver refuses it more
WATCH = "watch"  # it is ended when it holds more
NONE = "none"  # nothing does, or nothing needs to: it has whole devices
OVER_SHARE = "over-share"  # why a worker was ended that held more


class Limit(NamedTuple):
    """What a worker may hold of one device: its share in thousandths, and the same in bytes."""

    milli: int
    memory_bytes: int


class Bound(NamedTuple):
    """How a worker is bound to its devices. The job's own environment wins over `caps`, never over
    `facts`. `denied` are the devices that it was not given, as the kernel names them (`c 195:3`), and
    `denied_files` their files. A worker elsewhere than in the host's file system needs its `folders` and its devices' `files` there.
    """

    enforcement: str = NONE
    facts: dict[str, str] = {}
    caps: dict[str, str] = {}
    denied: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    denied_files: tuple[str, ...] = ()
