"""Takes a platform down by what is on disk, whoever started it and whether or not they still live.

Rule: no new work first, then the workers, then the services, then what they stood on.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from headrace.embedded.layout import Layout
from headrace.embedded.nats import Nats
from headrace.embedded.postgres import Postgres
from headrace.embedded.processes import boot_id
from headrace.embedded.services import SERVICES, inherited
from headrace.embedded.units import python_command, recorded, stop_recorded

ATTEMPTS_END_S_MAX = 180.0  # every attempt of a node gets its grace, then is killed
PARALLEL_MAX = 8
SUPERVISOR = "headrace-shim\n"  # of an attempt, as its process is named

_LOG = logging.getLogger("headrace.up")


class _Intent(msgspec.Struct):
    """Of the first line of an attempt's record: whose pid it is, and in which boot."""

    boot: str
    pid: int


def end_everything(layout: Layout, *, keep_jobs: bool, again: bool = False) -> None:
    """End whatever of the platform runs; `keep_jobs` leaves running attempts alone. `again`: that
    was done a moment ago, so attempts are those of an agent that was just being started.
    """
    names = {record.name for record in recorded(layout)}
    stop_together(layout, names & {"gateway"})
    had_agents = stop_together(layout, names - set(SERVICES) - {"postgres", "nats"})
    if not keep_jobs:
        nodes = had_agents if again else sorted(folder.name for folder in layout.nodes.glob("*"))
        with ThreadPoolExecutor(PARALLEL_MAX) as threads:
            list(threads.map(lambda node: end_attempts(layout, node), nodes))
    stop_together(layout, names & set(SERVICES))
    Nats(layout.nats).stop()
    if layout.has_postgres():
        Postgres(layout.postgres()).stop()


def open_jobs(layout: Layout) -> list[str]:
    """The jobs of which an attempt on a node of this machine has not ended, by what is on disk."""
    folders = layout.nodes.glob("*/attempts/*")
    is_open = (
        f for f in folders if (f / "intent.json").exists() and not (f / "exit.json").exists()
    )
    return sorted({folder.name.rsplit(".", 2)[0].replace(".", "/") for folder in is_open})


def left_elsewhere(layout: Layout, was: Path) -> dict[str, int]:
    """The jobs of which an attempt runs on in the folder that this one was copied from, by this folder's
    copy of its record or because its supervisor works where the platform `was`, with the pid of what
    supervises it. This folder would not hear of its end, and give its devices to others.
    """
    found = dict(_supervisors(was, layout))
    for folder in layout.nodes.glob("*/attempts/*"):
        pid = _pid_of(folder / "intent.json") if not (folder / "exit.json").exists() else 0
        there = Path(f"/proc/{pid}/cwd")
        try:
            name = there.readlink().name.removesuffix(" (deleted)")
            is_here = there.stat().st_ino == folder.stat().st_ino
        except OSError:
            continue
        if name == folder.name and not is_here:
            found[_job_of(name)] = pid
    return found


def _supervisors(was: Path, layout: Layout) -> Iterator[tuple[str, int]]:
    """Of attempts in the folder that was at `was`, and that are not this one's: by job."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if (process / "comm").read_text() != SUPERVISOR:
                continue
            there = Path(str((process / "cwd").readlink()).removesuffix(" (deleted)"))
            node, _, attempt = there.relative_to(was / layout.nodes.name).parts
            here = layout.nodes / node / "attempts" / attempt
            if not (here.exists() and here.samefile(process / "cwd")):
                yield _job_of(attempt), int(process.name)


def _job_of(attempt: str) -> str:
    """The job whose attempt has a folder of this name."""
    return attempt.rsplit(".", 2)[0].replace(".", "/")


def _pid_of(intent: Path) -> int:
    """The supervisor of an attempt that was begun in this boot; 0 of any other."""
    try:
        with intent.open("rb") as file:
            said = msgspec.json.decode(file.readline(), type=_Intent)
    except (OSError, msgspec.DecodeError):
        return 0
    return said.pid if said.boot == boot_id() else 0


def stop_together(layout: Layout, names: Iterable[str]) -> list[str]:
    """End these units at the same time; those that ran."""
    ordered = sorted(names)
    with ThreadPoolExecutor(PARALLEL_MAX) as threads:
        ran = threads.map(lambda name: stop_recorded(layout, name), ordered)
        return [name for name, did_run in zip(ordered, ran, strict=True) if did_run]


def end_attempts(layout: Layout, node: str) -> None:
    """End what runs on a node without its agent: attempts, then the launcher."""
    try:
        done = subprocess.run(
            python_command("headrace.node_agent", "--stop-all", str(layout.node(node))),
            env=inherited(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=ATTEMPTS_END_S_MAX,
        )
    except subprocess.TimeoutExpired:
        _LOG.warning("%s attempts still end after_s=%.0f", node, ATTEMPTS_END_S_MAX)
        return
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        _LOG.warning("%s attempts may still run error=%s", node, lines[-1] if lines else "none")
