"""The power fails right after a folder was kept: what the gateway has said it keeps is there, whole."""

import os
import shutil
from pathlib import Path

import pytest
from tests.power.disk import disk

from headrace.bundles.arriving import Arriving
from headrace.bundles.manifest import File, encode_manifest, manifest_of, name_of
from headrace.bundles.objects import Objects
from headrace.bundles.packs import PACK_FILES_MIN, PACKED_BYTES_MAX

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mkfs.ext4"), reason="needs root"
)


@pytest.mark.parametrize("count", [1, PACK_FILES_MIN + 1], ids=["few", "packed"])
def test_a_folder_that_is_kept_survives_the_power(tmp_path: Path, count: int) -> None:
    contents = [os.urandom(1_000) for _ in range(count)] + [os.urandom(PACKED_BYTES_MAX + 1)]
    files = (File(str(n), len(data), name_of(data)) for n, data in enumerate(contents))
    manifest = encode_manifest(manifest_of(files))
    with disk(tmp_path) as made:
        objects = Objects(made.path / "root" / "files" / "default", durable=True)
        arriving = Arriving(objects)
        for data in contents:
            arriving.begin(name_of(data), len(data))
            arriving.add(memoryview(data))
            arriving.end()
        arriving.close()
        assert objects.put_tree(manifest) == []
        made.cut()
        made.back()
        assert objects.tree(name_of(manifest)) is not None
        for data in contents:
            assert objects.read(name_of(data), 0, len(data)) == data
