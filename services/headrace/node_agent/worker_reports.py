"""What a worker's program reports about itself, in its folder (`headrace.client.worker`).

Rule: whatever lies there was written by the job: nothing is followed, waited for or believed beyond
its bounds.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec

from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.protocol import REPORTS

FILES_MAX = 64  # processes of one worker that are looked at
NAMES_MAX = 1_024  # in the folder
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
    with contextlib.suppress(OSError), Folder.at(folder / REPORTS) as reports:
        names = frozenset(reports.names(NAMES_MAX))
        for process in range(FILES_MAX if names else 0):
            name = f"{process}.json"
            if name in names and (values := _read(reports, name)):
                return values
    return {}


def _read(reports: Folder, name: str) -> dict[str, str]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        said = _REPORTED.decode(reports.read(name, BYTES_MAX)).values
        named = [(name, said[name]) for name in sorted(said)[:VALUES_MAX]]
        return {name: value for name, value in named if _is_value(name, value)}
    return {}


def _is_value(name: str, value: str) -> bool:
    return bool(_NAME.fullmatch(name) and _NUMBER.fullmatch(value))
