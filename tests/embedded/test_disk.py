"""A data dir on a disk that is full or read-only: `up` says so in one line, and changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.open_folders import open_folder

from headrace.embedded import identity, secrets, settings, status
from headrace.embedded.layout import Layout
from headrace.embedded.services import SERVICES

UP_S_MAX = 120.0
ROOMY, FULL = "size=64m", "size=1m"


class Disk:
    """A small disk of its own, mounted at `path`."""

    def __init__(self, path: Path) -> None:
        self.path, self.layout = path, Layout(path / "data")
        self.mount("-t", "tmpfs", "-o", f"{ROOMY},mode=755", "none")

    def mount(self, *options: str) -> None:
        """Mount it, or mount it anew with other options."""
        subprocess.run(("mount", *options, str(self.path)), check=True)

    def has_platform(self) -> None:
        """Make what a platform leaves that has run, without servers."""
        self.layout.create()
        identity.settle(self.layout, "", is_restored=False)
        settings.settle(self.layout, settings.Wanted(nodes=0))
        secrets.ensure(self.layout, SERVICES)
        (self.layout.data_dir / "postgres" / "data").mkdir(parents=True)

    def contents(self) -> dict[str, bytes]:
        """All that is on it."""
        files = (path for path in self.path.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}

    def up(self) -> str:
        """The one line with which `headrace up` refuses."""
        where = ("--listen", "127.0.0.1:0", "--data-dir", str(self.layout.data_dir))
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli", "up", "--detach", "--nodes", "0", *where],
            capture_output=True,
            text=True,
            timeout=UP_S_MAX,
            check=False,
        )
        assert done.returncode != 0, done.stdout
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A disk of 64 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    for name in ("HEADRACE_PG_DSN", "HEADRACE_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    with open_folder() as folder:
        made = Disk(folder)
        yield made
        subprocess.run(("umount", "--lazy", str(folder)), check=True)


def test_a_first_start_needs_more_room_than_there_is(disk: Disk) -> None:
    said = disk.up()
    assert "its disk is full: 6" in said
    assert "256 MiB are needed to start: free some, or take another --data-dir" in said
    assert not disk.contents(), "nothing was begun"


def test_a_platform_on_a_full_disk_is_left_as_it_is(disk: Disk) -> None:
    disk.has_platform()
    disk.mount("-o", f"remount,{FULL}")
    before = disk.contents()
    said = disk.up()
    assert "its disk is full: 0 MiB are free, and 32 MiB are needed to start" in said
    assert disk.contents() == before
    said = f"{disk.layout.data_dir} — its disk is full: 0 MiB are free: nothing is taken before there is room"
    assert status.report(disk.layout).notices == [said]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_read_only_folder_is_refused_with_the_ways_out(disk: Disk, is_first: bool) -> None:
    if not is_first:
        disk.has_platform()
    before = disk.contents()
    disk.mount("-o", "remount,ro")
    said = disk.up()
    assert str(disk.layout.data_dir) in said
    assert "Read-only file system: mount it writable, or take another --data-dir" in said
    assert disk.contents() == before
