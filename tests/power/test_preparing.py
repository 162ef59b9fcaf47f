"""The power fails when a deployment was prepared, or a machine has joined: that it was is not lost.

What the other side knows already (the log its keys, the platform its member) cannot be made again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy import platform
from tests.power.disk import Disk, disk

from headrace.node_agent.membership import Member, NodeFolder

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mkfs.ext4"), reason="needs root"
)


@pytest.fixture
def cut_disk(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path) as made:
        yield made


def test_what_was_prepared_is_there(cut_disk: Disk, database: str) -> None:
    folder = cut_disk.path / "root" / "deployment"
    prepared = platform.prepare(folder, database, "nats://bus:4222", "n1")
    assert prepared.returncode == 0, prepared.stderr
    before = files_of(folder)
    cut_disk.cut()
    cut_disk.back()
    assert files_of(folder) == before
    again = platform.prepare(folder, database, "nats://bus:4222", "n1")
    assert again.returncode == 0, again.stderr


def test_a_machine_that_joined_is_a_member(cut_disk: Disk) -> None:
    where = cut_disk.path / "root" / "state" / "node"
    where.mkdir(parents=True)
    member = Member(node="n1", url="http://127.0.0.1:7400", address="127.0.0.1")
    NodeFolder(where).joined(member)
    cut_disk.cut()
    cut_disk.back()
    assert NodeFolder(where).member() == member


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
