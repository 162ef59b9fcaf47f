"""A disk that can be cut: a file system on a loop device, which loses what has not been synced.

Rule: a cut is the kernel's own (`EXT4_IOC_SHUTDOWN` without writing the journal): from that instant nothing
reaches the device, and what was only in memory is gone, as when the power fails. Needs root.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

SIZE = 2 * 1024**3
UNMOUNT_S_MAX = 30.0
_SHUTDOWN, _LOSE_THE_JOURNAL = 0x8004587D, 2
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Disk:
    """Mounted at `path`. `run` gives the command that starts a program on it, as on a machine of its own that
    boots anew after each cut.
    """

    def __init__(self, folder: Path, size: int = SIZE) -> None:
        self._image, self.path = folder / "image", folder / "disk"
        self._boot = folder / "boot"
        with self._image.open("wb") as file:
            file.truncate(size)
        self.path.mkdir()
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()
        for name in ("shared", "root"):
            (self.path / name).mkdir(mode=0o711)
        os.sync()

    def run(self, *command: str) -> list[str]:
        """The command, for which the shared folder of servers is on this disk, and the boot is this one."""
        there = "/var/lib/headrace"
        Path(there).mkdir(parents=True, exist_ok=True)
        binds = f"mount --bind {self.path}/shared {there} && mount --bind {self._boot} {_BOOT}"
        return [
            "unshare",
            "-m",
            "--propagation",
            "slave",
            "sh",
            "-c",
            f'{binds} && exec "$@"',
            "sh",
            *command,
        ]

    def cut(self) -> None:
        """The power fails."""
        there = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(there, _SHUTDOWN, struct.pack("I", _LOSE_THE_JOURNAL))
        finally:
            os.close(there)

    def back(self) -> None:
        """It is back, once nothing of before runs: another boot finds what the device has."""
        self._unmount()
        self._mount()

    def close(self) -> None:
        self._unmount()
        self._image.unlink()

    def _mount(self) -> None:
        self.boot_id = str(uuid.uuid4())
        self._boot.write_text(f"{self.boot_id}\n")
        # A device of its own each time: who started meanwhile may hold the mount of before, which is dead.
        device = _run("losetup", "--find", "--show", str(self._image)).strip()
        _run("mount", device, str(self.path))
        _run("losetup", "--detach", device)  # when it is unmounted

    def _unmount(self) -> None:
        deadline_s = time.monotonic() + UNMOUNT_S_MAX
        while subprocess.run(
            ["umount", str(self.path)], capture_output=True, check=False
        ).returncode:
            assert time.monotonic() < deadline_s, f"something still works on {self.path}"
            time.sleep(0.05)


@contextlib.contextmanager
def disk(folder: Path, size: int = SIZE) -> Iterator[Disk]:
    """A new one of so many bytes, gone afterwards."""
    made = Disk(folder, size)
    try:
        yield made
    finally:
        made.close()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
