"""What a worker's program reports about itself, in its folder (`headrace.client.worker`).

Rule: whatever lies there was written by the job: nothing is followed, waited for or believed beyond
its bounds.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

import msgspec

from headrace.node_agent.supervision.protocol import REPORTS

FILES_MAX = 64  # processes of one worker that are looked at
BYTES_MAX = 4_096
VALUES_MAX = 16

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_NUMBER = re.compile(
    r"-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?|nan|-?inf"
)  # as Python has it


class _Reported(msgspec.Struct, kw_only=True):
    values: dict[str, str]


_REPORTED = msgspec.json.Decoder(_Reported)


def values_of(folder: Path) -> dict[str, str]:
    """The last of each value that the first process to report any has; decimals, by name."""
    for process in range(FILES_MAX):
        values = _read(f"{folder}/{REPORTS}/{process}.json")
        if values:
            return values
    return {}


def _read(path: str) -> dict[str, str]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                said = _REPORTED.decode(os.read(descriptor, BYTES_MAX)).values
                named = [(name, said[name]) for name in sorted(said)[:VALUES_MAX]]
                return {name: value for name, value in named if _is_value(name, value)}
        finally:
            os.close(descriptor)
    return {}


def _is_value(name: str, value: str) -> bool:
    return bool(_NAME.fullmatch(name) and _NUMBER.fullmatch(value))
