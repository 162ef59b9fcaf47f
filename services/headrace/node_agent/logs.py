"""Reads the output that workers wrote to their files.

Rule: what is said is the file and the offset; a part that was dropped to save space is skipped, and
the answer's offset says so.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from headrace.bus.agents import LogsChunk, LogsWanted
from headrace.node_agent import folders
from headrace.node_agent.machine import AttemptKey

BYTES_MAX = 524_288  # in one answer, so that it fits into a message
PROCESSES_MAX = 1_024  # of one worker


def read(folder: Path, wanted: LogsWanted, *, has_ended: bool) -> LogsChunk:
    """What there is from the offset on. `has_ended` says that nothing more will be written."""
    if not 0 <= wanted.process < PROCESSES_MAX:
        return LogsChunk(offset=0, ended=True, missing=f"there is no process {wanted.process}")
    try:
        file = os.open(folder / f"{wanted.process}.log", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        missing = "it wrote no output" if has_ended else ""
        return LogsChunk(offset=max(0, wanted.offset), ended=has_ended, missing=missing)
    try:
        return _read(file, wanted, has_ended=has_ended)
    finally:
        os.close(file)


def of_attempt(node_dir: Path, wanted: LogsWanted, *, has_ended: bool) -> LogsChunk:
    """The same for an attempt that may never have been on this node, or long ago."""
    try:
        folder = node_dir / folders.name_of(AttemptKey(wanted.job, wanted.attempt, wanted.rank))
    except ValueError as error:
        return LogsChunk(offset=0, ended=True, missing=str(error))
    if has_ended and not folder.exists():
        missing = "this node has no output of it any more"
        return LogsChunk(offset=wanted.offset, ended=True, missing=missing)
    return read(folder, wanted, has_ended=has_ended)


def _read(file: int, wanted: LogsWanted, *, has_ended: bool) -> LogsChunk:
    size = os.fstat(file).st_size
    asked = 0 if wanted.offset > size else wanted.offset  # 0: the file was started over
    asked = max(0, size + asked) if asked < 0 else asked
    offset, until = _written(file, asked, size)
    length = max(0, min(wanted.bytes_max, BYTES_MAX, until - offset))
    data = os.pread(file, length, offset)
    return LogsChunk(offset=offset, data=data, ended=has_ended and offset + len(data) >= size)


def _written(file: int, offset: int, size: int) -> tuple[int, int]:
    """The next stretch of the file from the offset on that was not dropped."""
    try:
        start = os.lseek(file, offset, os.SEEK_DATA)
        return start, os.lseek(file, start, os.SEEK_HOLE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but dropped output up to the end
            return size, size
        return offset, size
