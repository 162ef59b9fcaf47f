"""How full a disk is: of blocks, and of inodes."""

import os

import pytest

from headrace.telemetry.disk import used_permille


@pytest.mark.parametrize(
    ("free", "permille"),
    [((250, 1000, 900), 750), ((900, 1000, 50), 950), ((250, 0, 0), 750)],
)
def test_a_disk_is_as_full_as_what_it_has_least_of(tmp_path, monkeypatch, free, permille):
    blocks_free, inodes, inodes_free = free
    said = os.statvfs_result(
        (4096, 4096, 1000, blocks_free, blocks_free, inodes, inodes_free, inodes_free, 0, 255)
    )
    monkeypatch.setattr(os, "statvfs", lambda _path: said)
    assert used_permille(tmp_path) == permille
