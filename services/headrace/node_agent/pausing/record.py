"""What an attempt's folder says of its pauses: how far the last one came, and how long it rested.

Rule: written before anything is done and after all is, so that whoever comes next knows whether the
last one was interrupted. The shim reads the times: a worker's time stands still while it is paused.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headrace.bus.agents import Assignment
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.protocol import PAUSE

BYTES_MAX = 16_384


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`phase` is what was wanted by the decision at `phase_at`, and is reached when `done`, unless
    it `failed`. `devices` are those that the processes were made on or moved to last. They rest
    since `since_ns` (0: they do not) and did before for `rested_ns`, by `CLOCK_BOOTTIME`.
    """

    phase: str
    phase_at: int
    devices: tuple[str, ...] = ()
    done: bool = False
    failed: str = ""
    broken: bool = False
    gpu_bytes: int = 0
    took_us: int = 0
    since_ns: int = 0
    rested_ns: int = 0


_RECORD = msgspec.json.Decoder(Record)


def wanted_of(assignment: Assignment) -> Record:
    """What placement wants of it."""
    devices = tuple(share.device for share in assignment.shares)
    return Record(phase=assignment.phase, phase_at=assignment.phase_at, devices=devices)


def read(folder: Path) -> Record | None:
    """What the folder says; None when nothing was ever wanted."""
    try:
        return _RECORD.decode(kernel.read(f"{folder}/{PAUSE}", BYTES_MAX))
    except (OSError, msgspec.MsgspecError):
        return None


def write(folder: Path, record: Record) -> None:
    """Replace what the folder says. Raises `OSError`."""
    kernel.write(f"{folder}/{PAUSE}.new", msgspec.json.encode(record))
    os.rename(f"{folder}/{PAUSE}.new", f"{folder}/{PAUSE}")
