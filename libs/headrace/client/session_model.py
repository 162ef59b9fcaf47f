"""What is said to get into a running job, and what travels once inside.

Rule: as `model`: one Struct for the gateway, this client and whoever writes another.
"""

from __future__ import annotations

import msgspec


class Visit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first message of a session: how somebody wants into a job, and where to.

    `way` is exec (`command`, on a terminal of `rows` × `columns` if given), attach (what `process`
    of the worker writes) or port-forward (to its `port`). `rank` is the worker.
    """

    way: str
    rank: int = 0
    process: int = 0
    command: tuple[str, ...] = ()
    rows: int = 0
    columns: int = 0
    port: int = 0


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A way into a workspace with a browser: `path` is good once, and for a minute, at `host`, by the
    gateway's scheme and port.
    """

    job: str
    host: str
    path: str


class SessionPiece(msgspec.Struct, frozen=True, array_like=True):
    """What travels in a session, both ways. `kind`, and what goes with it:

    `data` (bytes of standard input or output, or of the connection), `error` (bytes of standard
    error), `size` (value: rows × 65,536 + columns), `eof` (no data follows from this side), `exit`
    (value: the exit code; data: one line for people) and `lost` (data: why the rest is not known).
    """

    kind: str
    data: bytes = b""
    value: int = 0
