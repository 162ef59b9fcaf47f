"""Machines with nothing in common but the network: each node in a root of its own.

Rule: of this machine a node sees its programs, read-only, and nothing else: no home, no /tmp, no
folder of the platform, of a laptop or of another node. It sees its own processes only, and what it
writes is gone with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import headrace

from .conftest import READY_S_MAX, Platform

_UNSHARE = (
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child=KILL",
    "--propagation",
    "private",
)
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")
_ENTER = """
set -e
root=$1; shift
mount -t tmpfs -o mode=755 none "$root"
mkdir -m 1777 "$root/tmp" && mkdir "$root/node" "$root/proc" "$root/dev" "$root/sys"
while [ "$1" != -- ]; do
    [ ! -e "$1" ] || { mkdir -p "$root$1" && mount --rbind "$1" "$root$1" && mount -o remount,bind,ro "$root$1"; }
    shift
done; shift
mount -t proc none "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys"
exec chroot "$root" "$@"
"""


def why_not() -> str:
    """Why there can be no such machine here; empty if there can."""
    done = subprocess.run([*_UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return f"a root of one's own needs root: {done.stderr.decode()}" if done.returncode else ""


class Machine:
    """A machine that is a node of the platform for as long as the context lasts."""

    def __init__(self, platform: Platform, name: str, gpus: str) -> None:
        self.name, self._platform, self._gpus = name, platform, gpus
        self.log = platform.home / f"{name}.log"
        self._root = platform.home / f"{name}.root"
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        said = self._platform.headrace("node", "token", "--auto-approve").stdout
        token = said.splitlines()[0].rpartition(" ")[2]
        words = ("-m", "headrace.cli", "node", "join", self._platform.url, "--token", token)
        own = ("--name", self.name, "--dir", "/node/data", "--gpus", self._gpus)
        self._root.mkdir()
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                self._command(sys.executable, *words, *own), env=_ENV, stdout=log, stderr=log
            )
        self._platform.wait(lambda: self._state() == "ready", f"{self.name} is a node")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.kill()  # and with it every process that its machine has
        self._running.wait(READY_S_MAX)
        self._platform.headrace("node", "delete", self.name)

    def _command(self, *words: str) -> tuple[str, ...]:
        sources = [str(Path(path).parent) for path in headrace.__path__]
        seen = dict.fromkeys((*SYSTEM, sys.base_prefix, sys.prefix, *sources))
        return (*_UNSHARE, "sh", "-c", _ENTER, "enter", str(self._root), *seen, "--", *words)

    def _state(self) -> str:
        rows = {row["node"]: row for row in self._platform.json("node", "list")}
        return str(rows.get(self.name, {}).get("state", ""))


_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/node",
    "PYTHONPATH": os.pathsep.join(str(Path(path).parent) for path in headrace.__path__),
    "HEADRACE_NODE_DIR": "/node/data",
    "HEADRACE_NODE_ISOLATION": "processes",
    "HEADRACE_NODE_NETWORK": "none",  # the network is this machine's, and outlives them
}
