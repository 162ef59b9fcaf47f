"""Many small contents in one file: the same to everybody as if each had its own."""

import os
import random
from pathlib import Path

import pytest
from tests.bundles.test_objects import aged

from headrace.bundles.arriving import Arriving
from headrace.bundles.frames import Frames, framed
from headrace.bundles.laying import lay
from headrace.bundles.manifest import File, Manifest, encode_manifest, manifest_of, name_of
from headrace.bundles.objects import Damaged, Objects
from headrace.bundles.packs import PACK_FILES_MIN
from headrace.bundles.thinning import forget_before, size_of, thin

MANY = 3 * PACK_FILES_MIN


def contents(seed: int, files: int = MANY, size: int = 1_000) -> dict[str, bytes]:
    """By their names, with an empty one among them."""
    made = [b"", *(random.Random(f"{seed}.{i}").randbytes(size + i) for i in range(files - 1))]
    return {name_of(data): data for data in made}


def files_below(folder: Path) -> int:
    """Each once, however many links lead to it."""
    return len({path.stat().st_ino for path in folder.rglob("*") if path.is_file()})


def test_what_came_together_is_one_file_and_is_read_as_if_it_were_many(tmp_path: Path) -> None:
    objects, many = Objects(tmp_path), contents(1)
    large = os.urandom(1_500_000)
    objects.put_all({**many, name_of(large): large})
    assert files_below(tmp_path) == 2
    assert objects.missing([*many, name_of(large), name_of(b"not here")]) == [name_of(b"not here")]
    for digest, data in many.items():
        assert objects.read(digest, 0, 10_000) == data
        assert objects.read(digest, 500, 20) == data[500:520]
        assert objects.read(digest, 5_000, 20) == b""


def test_a_few_have_files_of_their_own(tmp_path: Path) -> None:
    objects, few = Objects(tmp_path), contents(1, PACK_FILES_MIN - 1)
    objects.put_all(few)
    assert files_below(tmp_path / "objects") == len(few)
    assert objects.missing(few) == []


def test_what_was_compared_is_kept_when_the_next_is_damaged(tmp_path: Path) -> None:
    objects, many = Objects(tmp_path), contents(1)
    arriving = Arriving(objects)
    frames = Frames(arriving)
    for digest, data in many.items():
        frames.feed(framed(digest, data))
    with pytest.raises(Damaged):
        frames.feed(framed(name_of(b"one"), b"other"))
    arriving.close()
    assert objects.missing([*many, name_of(b"one")]) == [name_of(b"one")]


@pytest.mark.parametrize("harm", ["turned over", "cut short", "emptied", "its table lost"])
def test_a_pack_that_was_damaged_is_noticed_and_can_be_sent_again(
    tmp_path: Path, harm: str
) -> None:
    objects = Objects(tmp_path / "kept")
    files = {f"file{i}": data for i, data in enumerate(contents(1).values()) if data}
    objects.put_all({name_of(data): data for data in files.values()})
    digest = name_of(files["file40"])
    pack = Path(objects.pack_of(digest))
    data = pack.read_bytes()
    at = data.index(files["file40"])
    harmed = {
        "turned over": data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
        "cut short": data[: at + 10],
        "emptied": b"",
        "its table lost": b"\xff" * 3_000 + data[3_000:],
    }
    pack.write_bytes(harmed[harm])
    with pytest.raises(Damaged):
        objects_laid(objects, tmp_path, files)
    for name in files.values():
        objects.drop_damaged(name_of(name))
    missing = objects.missing([name_of(data) for data in files.values()])
    assert digest in missing
    objects.put_all({name_of(data): data for data in files.values()})
    assert objects_laid(objects, tmp_path, files) == files


def objects_laid(objects: Objects, folder: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """What lies in a copy of a folder with these files, which are here already."""
    copy = folder / f"copy{len(list(folder.iterdir()))}"
    lay(objects, manifest_with(files), copy)
    return {path.name: path.read_bytes() for path in copy.iterdir()}


def manifest_with(files: dict[str, bytes]) -> Manifest:
    return manifest_of(File(path, len(data), name_of(data)) for path, data in files.items())


def test_a_pack_goes_with_the_last_folder_that_needs_it(tmp_path: Path) -> None:
    objects, many = Objects(tmp_path), contents(1)
    objects.put_all(many)
    kept_of(objects, many)
    aged(objects, 2)
    thin(objects, 10)
    assert objects.trees() == []
    assert files_below(tmp_path) == 0


def test_of_a_pack_that_is_hardly_needed_any_more_only_that_is_kept(tmp_path: Path) -> None:
    objects, many = Objects(tmp_path), contents(1)
    objects.put_all(many)
    kept_of(objects, many)
    few = dict(list(many.items())[1:4])
    used = kept_of(objects, few)
    aged(objects, 2)
    assert objects.has_tree(used)
    whole = size_of(objects)
    size = sum(len(data) for data in few.values()) + (tmp_path / "trees" / used).stat().st_size
    assert thin(objects, whole - 1_000, frozenset([used])) == size_of(objects) == size
    assert objects.trees() == [used]
    assert [objects.read(digest, 0, 10_000) for digest in few] == list(few.values())


def test_what_is_damaged_in_a_pack_never_gets_a_file_of_its_own(tmp_path: Path) -> None:
    objects, many = Objects(tmp_path), contents(1)
    objects.put_all(many)
    few = dict(list(many.items())[1:4])
    used = kept_of(objects, few)
    aged(objects, 2)
    lost = list(few)[1]
    pack = Path(objects.pack_of(lost))
    data = pack.read_bytes()
    pack.write_bytes(data.replace(few[lost], bytes(len(few[lost]))))
    aged(objects, 2)
    thin(objects, 1_000, frozenset([used]))
    assert not Path(objects.path_of(lost)).exists()
    assert [name for name in few if objects.read(name, 0, 10_000) != few[name]] == [lost]
    assert objects.drop_damaged(lost)


def test_what_came_in_packs_before_an_erasure_goes_too(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "project")
    objects.put_all(contents(1))
    aged(objects, 1)
    forget_before(objects, 2e9)
    assert not objects.root.exists()


def kept_of(objects: Objects, files: dict[str, bytes]) -> str:
    """Keep a folder with these contents, which are here already; its name."""
    data = encode_manifest(manifest_with(files))
    assert objects.put_tree(data) == []
    return name_of(data)
