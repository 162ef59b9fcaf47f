"""Ends everything that runs on a node, without its agent: the operator's last word.

Rule: it returns when nothing of any attempt is left, and only then.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import socket
import time
from pathlib import Path

from headrace.node_agent import folders
from headrace.node_agent.gang_network import network as gang_network
from headrace.node_agent.isolation import cgroups
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.protocol import (
    ATTEMPTS,
    CHECKPOINT_GRACE_S_MAX,
    DOWN,
    LAUNCHER_LOCK,
    SOCKET,
)

GRACE_S = 5
QUIT_S = 5.0  # for a launcher to leave before it is killed
LOOK_S = 0.01


def stop_all(node_dir: Path) -> int:
    """End every attempt found in the node's folder, then its launcher; how many there were."""
    if not (node_dir / ATTEMPTS).is_dir():
        return 0
    boot, ended = kernel.boot_id(), 0
    running: list[tuple[Path, int]] = []
    contained: list[tuple[AttemptKey, Path]] = []
    for key, folder in folders.keys_in(node_dir):
        if folders.read_exit(folder) is None:
            ended += 1
            if folders.is_open(folder, folders.DOCKER):
                contained.append((key, folder))
            elif pid := folders.shim_of(folder):
                running.append((folder, _ask(folder, pid)))
            else:
                _sweep(folder, boot)
    for folder, pidfd in running:
        if pidfd >= 0:
            _until_ended(pidfd)
            os.close(pidfd)
        if folders.read_exit(folder) is None:
            _sweep(folder, boot)
    if contained:
        from headrace.node_agent.containers.stopping import end_all  # what it needs takes a while

        asyncio.run(end_all(node_dir, contained, grace_s=GRACE_S))
    _quit_launcher(node_dir)
    _leave_the_machine(node_dir)
    return ended


def _leave_the_machine(node_dir: Path) -> None:
    """Remove the control groups and the fence that held the node's attempts, unless an agent is there: it
    would start others in them.
    """
    with contextlib.suppress(OSError), open(node_dir / folders.AGENT_LOCK, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        name = cgroups.name_of(node_dir)
        cgroups.remove_base(name)
        gang_network.remove(name)


def _ask(folder: Path, pid: int) -> int:
    """Ask the shim to end its attempt; the pidfd to wait for, -1 when it has just ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    intent = folders.read_intent(folder)
    by, grace_s = intent.checkpoint_signal if intent is not None else "", GRACE_S
    if intent is not None and by:
        grace_s = min(intent.checkpoint_grace_s, CHECKPOINT_GRACE_S_MAX)
    folders.write_stop(folder, DOWN, grace_s, by)
    for number in (signal.SIGTERM, signal.SIGCONT):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
    return pidfd


def _until_ended(pidfd: int, within_s: float | None = None) -> None:
    """Until the process has ended, however long something in it cannot be killed, or so long."""
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    ended.poll(None if within_s is None else within_s * 1000)


def _sweep(folder: Path, boot: str) -> None:
    """Nobody supervises it any more: end what is left, and write that down."""
    intent = folders.read_intent(folder)
    if intent is not None and intent.boot == boot:
        tree.sweep(
            intent.marker, [], intent.groups
        )  # their sessions' numbers may be somebody else's by now
    folders.write_lost(folder, "its supervisor was killed", intent.at_us if intent else 0)


def _quit_launcher(node_dir: Path) -> None:
    """Have the launcher leave: it holds its lock as long as it lives, and a control group a moment longer."""
    until_s = time.monotonic() + QUIT_S
    while pid := folders.holder_of(node_dir / LAUNCHER_LOCK):
        if time.monotonic() > until_s:
            tree.send([pid], signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            _ask_to_quit(node_dir)
            _until_ended(pidfd, max(LOOK_S, until_s - time.monotonic()))
            os.close(pidfd)


def _ask_to_quit(node_dir: Path) -> None:
    here = os.open(node_dir, os.O_RDONLY | os.O_DIRECTORY)  # a socket's path must be short
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as launcher:
        launcher.settimeout(QUIT_S)
        launcher.connect(f"/proc/self/fd/{here}/{SOCKET}")
        launcher.sendall(b'{"quit": true}\n')
        while launcher.recv(4096):
            pass
    os.close(here)
