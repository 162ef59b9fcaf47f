"""What is written down of an attempt in a container, so that the next agent can go on with it.

Rule: as a shim does: what is meant before anything is started, how it ended whole or not at all. The
end is written beside its place before the container is removed and put into it afterwards, so that
`exit.json` means that nothing is left, and nothing is forgotten on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from headrace.node_agent import folders
from headrace.node_agent.containers.plan import SETUP_FAILED, top_of
from headrace.node_agent.isolation.accounts import Account
from headrace.node_agent.machine import Workplace
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.own_files import put_files
from headrace.node_agent.supervision.protocol import (
    EXIT,
    INPUTS,
    INTENT,
    OUTPUT,
    REPORTS,
    STOP_REASON,
    WORK,
)
from headrace.node_agent.supervision.record import EXIT_AGAIN_S, EXIT_ROOM_BYTES, EXIT_TRIES
from headrace.node_agent.supervision.workplace import furnish

KEPT = "container.json"
BEGINNING_BYTES = LAST_BYTES = 4_096


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What else of the attempt is needed to its end. `engine` is its address; `warned_s` before its limit it is
    asked to save itself; `deadline_ns` counts by `CLOCK_BOOTTIME` (0:
    none); `init`: the container's first process is the engine's, which reaps; `user` is whom it runs as
    (-1: an agent made it that did not say).
    """

    image: str
    grace_s: int
    checkpoint_signal: str = ""
    warned_s: int = 0
    engine: str = ""
    max_duration_s: int = 0
    memory_bytes: int = 0
    deadline_ns: int = 0
    init: bool = False
    user: int = -1


def prepare(
    folder: Path,
    intent: folders.Intent,
    kept: Kept,
    place: Workplace,
    *,
    files: Mapping[str, tuple[int, str]],
    account: Account | None,
    mountpoints: Iterable[str] = (),
) -> None:
    """Make the attempt's folder with what is meant, and with what was made ready for it and `files`
    (by path: mode and content), for this account. The engine makes `mountpoints` that are not there as
    root, through whatever link a job put there: so they are made here. Raises `OSError`.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    kernel.write(f"{folder}/{EXIT}.new", b" " * EXIT_ROOM_BYTES)
    keep(folder, kept)
    kernel.write(f"{folder}/{INTENT}", msgspec.json.encode(intent) + b"\n")
    with Folder.at(folder) as attempt:
        for name in (WORK, OUTPUT, REPORTS, INPUTS, STOP_REASON, SETUP_FAILED, *top_of(files)):
            with contextlib.suppress(FileNotFoundError):  # of an agent that came no further
                attempt.remove(name)
        made = furnish(attempt, {"tree": place.tree, "moves": place.moves, "links": ()})
        attempt.write(STOP_REASON, b"")
        attempt.write(SETUP_FAILED, b"")
        made += [SETUP_FAILED, *put_files(attempt, files)]
        for path in mountpoints:
            made += attempt.make_way(f"{path}/")
        if account is not None:
            user, group, _ = account
            for path in made:
                attempt.hand_over(path, user, group)
            attempt.show(STOP_REASON, group)


def keep(folder: Path, kept: Kept) -> None:
    """Write this down, in the place of what was."""
    kernel.write(f"{folder}/{KEPT}.new", msgspec.json.encode(kept))
    os.rename(f"{folder}/{KEPT}.new", f"{folder}/{KEPT}")


def kept_in(folder: Path) -> Kept:
    """What was written down; what nobody can read any more is as if nothing had been said."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((folder / KEPT).read_bytes(), type=Kept)
    return Kept(image="", grace_s=0)


def started(folder: Path, at_us: int, pid: int) -> None:
    """It runs. A full disk must not end it."""
    with contextlib.suppress(OSError):
        line = msgspec.json.encode({"at_us": at_us, "pids": [pid] if pid else []})
        kernel.write(f"{folder}/{INTENT}", line + b"\n", flags=os.O_APPEND)


def setup_has_failed(folder: Path) -> bool:
    """Whether it was the setup command that failed."""
    with contextlib.suppress(OSError):
        return (folder / SETUP_FAILED).stat().st_size > 0
    return False


def beginning(folder: Path) -> bytes:
    """The first that was written of its output."""
    with contextlib.suppress(OSError):
        return kernel.read(f"{folder}/0.log", BEGINNING_BYTES)
    return b""


def last_said(folder: Path) -> bytes:
    """The last that was written of its output."""
    with contextlib.suppress(OSError), open(f"{folder}/0.log", "rb") as output:
        output.seek(-min(LAST_BYTES, output.seek(0, os.SEEK_END)), os.SEEK_END)
        return output.read()
    return b""


async def ending(folder: Path, exit_: folders.Exit) -> None:
    """Write how it ended, before its container goes."""
    content = msgspec.json.encode(exit_).ljust(EXIT_ROOM_BYTES)
    for _ in range(EXIT_TRIES):
        try:
            kernel.write(f"{folder}/{EXIT}.new", content, flags=0)
        except OSError:
            await asyncio.sleep(EXIT_AGAIN_S)
        else:
            return


def ended(folder: Path) -> None:
    """Nothing of it is left."""
    with contextlib.suppress(OSError):
        os.rename(f"{folder}/{EXIT}.new", f"{folder}/{EXIT}")
