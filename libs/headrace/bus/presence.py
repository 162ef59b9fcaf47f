"""What every instance of a service says of itself: a signal every two seconds, never stored."""

from __future__ import annotations

import msgspec

SAY_S = 2.0  # between two of them
HEARD_S = 10.0  # after which an instance that said nothing is not there


class Presence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance: whether it leads its service (in which term), and how far it has read the log;
    `files` names the folder in which a gateway keeps the files of projects.
    """

    service: str
    instance: str
    position: int
    leading: bool = False
    epoch: int = 0
    memory_bytes: int = 0  # resident
    files: str = ""
