"""Which platform a data dir is, how far it has seen its log, and where it was when it last ran.

Rule: a copy of a folder has everything that is in it, so what tells it apart is outside: the inode of
one file that is never written again, when that was born, and the machine. A folder that is renamed,
mounted elsewhere or given to another container is still itself. One that may be a copy is refused until
an administrator says what it is; nothing of the place that it came from is touched.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

import msgspec

from headrace.embedded import EmbeddedError, processes
from headrace.embedded.ending import left_elsewhere
from headrace.embedded.files import read_json, write_file
from headrace.embedded.layout import Layout
from headrace.embedded.units import recorded

MOVED, FORK = "moved", "fork"
MACHINE_ID = Path("/etc/machine-id")
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
OF_THE_ORIGINAL = ("keys", "nats", "nodes", "run", "logs")  # what a fork makes anew: folders,
KEPT_BY_A_FORK = ("master.key", "vault.key")  # and secrets, but for what opens what is sealed

_AT_FDCWD, _STATX_BTIME, _STATX_BYTES = -100, 0x800, 256


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a folder is: `mark` is inode and time of birth (ns; 0: the file system does not say) of
    its file `place`, `machine` the machine's id (empty: it has none, or is a container).
    """

    path: str
    mark: tuple[int, int] = (0, 0)
    machine: str = ""

    def is_same(self, other: Place) -> bool:
        """Whether it is the same folder, whatever it is called."""
        machines = {self.machine, other.machine} - {""}
        return self.mark == other.mark and self.mark != (0, 0) and len(machines) <= 1


class Seen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A log as it was last seen: its lineage and that one's `epoch`, a `position`, the log's `hash` at
    `hash_at`, and what its roles' names begin with.
    """

    lineage: str = ""
    epoch: int = 0
    position: int = 0
    hash: str = ""
    hash_at: int = 0
    prefix: str = ""


class Identity(Seen, kw_only=True, omit_defaults=True):
    """A platform: its log, and its place. `how` is how the log is to be opened next, restored or forked,
    when that was ordered and is not done yet; `rotate`: its roles are its own, whatever they say.
    """

    place: Place
    how: str = ""
    rotate: bool = False


def read(layout: Layout) -> Identity | None:
    """What is known; None before the first start, or of a folder of an earlier release."""
    return read_json(_file(layout), Identity)


def write(layout: Layout, identity: Identity, *, durable: bool = True) -> None:
    """Keep it."""
    write_file(_file(layout), msgspec.json.encode(identity), durable=durable)


def seen(layout: Layout, position: int) -> None:
    """The log has come so far."""
    known = read(layout)
    if known is not None and position > known.position:
        known.position = position
        write(layout, known, durable=False)


def check(layout: Layout) -> None:
    """Raises `EmbeddedError` when this may be a copy of a platform's folder."""
    known = read(layout)
    if known is None or known.place.is_same(_place(layout)):
        return
    original = _original(known, layout)
    there = known.place.path
    was = f"a copy of {original or there}" + ("" if original else ", or was moved")
    if there == str(layout.data_dir.resolve()):
        was = "not the folder that was here: a copy of it, put back"
    moved = "" if original else " --moved, if it was moved or restored and the other is gone; or"
    raise EmbeddedError(
        f"refused: {layout.data_dir} — is {was}: headrace up{moved} --fork, for a platform of its own"
        " with the same log so far, and no part in the original's nodes, bus and jobs"
    )


def settled(layout: Layout) -> Identity:
    """What is known, made when there is nothing yet. Raises `EmbeddedError`."""
    settle(layout, "", is_restored=False)
    known = read(layout)
    assert known is not None  # just written
    return known


def settle(layout: Layout, word: str, *, is_restored: bool, rotate: bool = False) -> None:
    """Make this the place of the platform, as `word` (moved, fork; empty: neither) has it. Raises
    `EmbeddedError` when that cannot be so, and when the folder lacks what it must have.
    """
    known = read(layout)
    if known is None:
        if word or (is_restored and not layout.exists()):
            raise EmbeddedError(
                f"refused: --{word or 'restored'} — no platform in {layout.data_dir}"
            )
        _check_keys(layout)
        known = Identity(place=_marked(layout))
    elif not word:
        check(layout)
    _check_parts(layout, known)
    if word:
        _check_word(layout, known, word)
        _drop_remains(layout, word)
    if word or is_restored:
        known.how = "forked" if word == FORK else "restored"
    known.place, known.rotate = _marked(layout), rotate
    write(layout, known)


def _check_word(layout: Layout, known: Identity, word: str) -> None:
    if known.place.is_same(_place(layout)) and not known.how:
        raise EmbeddedError(
            f"refused: --{word} — {layout.data_dir} is where it was, and no copy of another folder"
        )
    if word == MOVED:
        if original := _original(known, layout):
            raise EmbeddedError(f"refused: --moved — the original is still at {original}: --fork")
        running = [unit for unit in recorded(layout) if unit.process]
        alive = [unit.name for unit in running if unit.process and processes.alive(unit.process)]
        if alive:
            raise EmbeddedError(
                f"refused: --moved — it still runs where it was ({', '.join(alive)}): end that first"
            )
        if left := left_elsewhere(layout, Path(known.place.path)):
            pids = " ".join(str(pid) for pid in left.values())
            raise EmbeddedError(
                f"refused: --moved — jobs still run where it was ({', '.join(sorted(left))}), and their end would"
                f" not be heard here: kill {pids} ends them, and they start anew"
            )


def _check_keys(layout: Layout) -> None:
    """A log is never given new keys."""
    if layout.has_postgres() and not (layout.secrets / "master.key").exists():
        raise EmbeddedError(
            f"refused: {layout.data_dir} — has a log and lacks its keys ({layout.secrets}), without"
            " which nothing in it can be opened: put them back, or copy the folder again, whole"
        )


def _check_parts(layout: Layout, known: Identity) -> None:
    if not known.lineage:
        return
    is_external = b'"external_postgres":true' in _bytes(layout.settings)
    cluster = layout.postgres() / "data" / "PG_VERSION"
    missing = [] if is_external or cluster.exists() else [cluster.parent]
    missing += [
        file for file in (layout.secrets / "master.key", layout.settings) if not file.exists()
    ]
    if missing:
        raise EmbeddedError(
            f"refused: {layout.data_dir} — is not whole, {missing[0]} is missing: put it back, or copy"
            " the folder again when the platform is down (headrace down); for a platform that begins"
            " anew take another --data-dir"
        )


def _drop_remains(layout: Layout, word: str) -> None:
    """Records of processes that are not this folder's; of a fork also all that lets it act as the
    original.
    """
    if word == FORK and b'"external_postgres":true' in _bytes(layout.settings):
        raise EmbeddedError(
            "refused: --fork — the log is in a Postgres of your own: copy the database, and prepare a"
            " platform over the copy (deploy/prepare.py)"
        )
    for name in OF_THE_ORIGINAL if word == FORK else ("run",):
        _remove(layout.data_dir / name)
    for file in (layout.state, layout.data_dir / "down.json"):
        file.unlink(missing_ok=True)
    if word == FORK:
        for file in layout.secrets.iterdir():
            if file.name not in KEPT_BY_A_FORK:
                file.unlink()
    layout.create()


def _original(known: Identity, layout: Layout) -> str:
    """Where the folder is that this one is a copy of, if it is still there."""
    there = Path(known.place.path)
    if there == layout.data_dir or not there.is_dir():
        return ""
    return str(there) if _mark(there / "place") == known.place.mark else ""


def _place(layout: Layout) -> Place:
    return Place(
        path=str(layout.data_dir.resolve()),
        mark=_mark(layout.data_dir / "place"),
        machine=_machine(),
    )


def _marked(layout: Layout) -> Place:
    """The place, with the file that marks it."""
    file = layout.data_dir / "place"
    if not file.exists():
        write_file(file, b"", mode=0o400, durable=True)
    return _place(layout)


def _mark(file: Path) -> tuple[int, int]:
    try:
        return file.stat().st_ino, _born_ns(file)
    except OSError:
        return 0, 0


def _born_ns(file: Path) -> int:
    """When the file came to be; 0 where neither kernel nor file system says so."""
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        failed = ctypes.CDLL(None).statx(
            _AT_FDCWD, os.fsencode(file), 0, _STATX_BTIME, ctypes.byref(answer)
        )
    except AttributeError:
        return 0
    (mask,) = struct.unpack_from("=I", answer, 0)
    if failed or not mask & _STATX_BTIME:
        return 0
    seconds, nanoseconds = struct.unpack_from("=qI", answer, 80)
    return int(seconds) * 10**9 + int(nanoseconds)


def _machine() -> str:
    """A container gets another id with its image, and is not the machine."""
    if any(mark.exists() for mark in CONTAINER_MARKS):
        return ""
    return _bytes(MACHINE_ID).decode("ascii", "replace").strip()


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _file(layout: Layout) -> Path:
    return layout.data_dir / "identity.json"
