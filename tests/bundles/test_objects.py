"""What is kept: by its name or not at all, within a cap, until it is erased."""

import os
import time
from pathlib import Path

import pytest

from headrace.bundles import thinning
from headrace.bundles.frames import BadFrame, Frames, framed
from headrace.bundles.laying import lay
from headrace.bundles.manifest import File, encode_manifest, manifest_of, name_of
from headrace.bundles.objects import Damaged, Objects
from headrace.bundles.thinning import forget_before, size_of, thin

HOUR_S = 3_600


def kept(objects: Objects, **files: bytes) -> str:
    """Keep a folder with these files; its name."""
    for data in files.values():
        objects.put(name_of(data), data)
    entries = (File(path, len(data), name_of(data)) for path, data in files.items())
    data = encode_manifest(manifest_of(entries))
    assert objects.put_tree(data) == []
    return name_of(data)


def aged(objects: Objects, hours: float) -> None:
    """As if everything had come so long ago."""
    at_s = time.time() - hours * HOUR_S
    for path in objects.root.rglob("*"):
        if path.is_file():
            os.utime(path, (at_s, at_s))


def test_a_content_under_another_name_is_not_kept(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    with pytest.raises(Damaged):
        objects.put(name_of(b"a"), b"b")
    assert objects.missing([name_of(b"a"), name_of(b"b")]) == [name_of(b"a"), name_of(b"b")]


def test_a_name_that_is_none_reaches_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no name"):
        Objects(tmp_path / "a").read("../../secret", 0, 10)


def test_parts_are_put_together_and_compared(tmp_path: Path) -> None:
    objects, data = Objects(tmp_path), os.urandom(1000)
    assert not objects.put_part(name_of(data), 1000, 0, data[:600])
    assert not objects.put_part(name_of(data), 1000, 0, data[:600])  # sent twice
    assert objects.put_part(name_of(data), 1000, 600, data[600:])
    assert objects.read(name_of(data), 0, 2000) == data
    with pytest.raises(Damaged):
        objects.put_part(name_of(b"other"), 1000, 600, data[600:])


def test_a_folder_is_there_when_all_of_it_is(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    manifest = manifest_of([File("a", 1, name_of(b"a")), File("b", 1, name_of(b"b"))])
    data = encode_manifest(manifest)
    objects.put(name_of(b"a"), b"a")
    assert objects.put_tree(data) == [name_of(b"b")]
    assert not objects.has_tree(name_of(data))
    objects.put(name_of(b"b"), b"b")
    assert objects.put_tree(data) == []
    assert objects.has_tree(name_of(data))
    assert objects.tree(name_of(data)) == manifest


def test_who_works_in_a_copy_cannot_change_what_is_kept(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "kept")
    tree = kept(objects, a=b"one", b=b"x" * 2_000_000)
    manifest = objects.tree(tree)
    assert manifest is not None
    lay(objects, manifest, tmp_path / "copy")
    for name in ("a", "b"):
        with (tmp_path / "copy" / name).open("r+b") as file:
            file.write(b"spoilt")
    lay(objects, manifest, tmp_path / "next")
    assert (tmp_path / "next" / "a").read_bytes() == b"one"
    assert (tmp_path / "next" / "b").read_bytes() == b"x" * 2_000_000


@pytest.mark.parametrize("size", [10, 2_000_000])
def test_damage_on_disk_is_seen_and_thrown_away(tmp_path: Path, size: int) -> None:
    objects = Objects(tmp_path / "kept")
    tree = kept(objects, a=b"x" * size)
    manifest = objects.tree(tree)
    assert manifest is not None
    digest = name_of(b"x" * size)
    Path(objects.path_of(digest)).write_bytes(b"y" * size)
    with pytest.raises(Damaged, match="a is damaged"):
        lay(objects, manifest, tmp_path / "copy")
    assert objects.drop_damaged(digest)
    assert objects.missing([digest]) == [digest]


def test_what_was_used_longest_ago_goes_first_and_what_is_needed_stays(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    shared = b"s" * 1000
    words = ("pinned", "old", "used")
    names = {word: kept(objects, shared=shared, own=word.encode() * 100) for word in words}
    aged(objects, 2)
    assert objects.has_tree(names["used"])
    assert thin(objects, 2_000, frozenset([names["pinned"]])) == size_of(objects) == 2_000
    assert set(objects.trees()) == {names["pinned"], names["used"]}
    assert objects.missing([name_of(shared)]) == []


def test_what_is_being_received_is_not_thinned_out(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    kept(objects, a=b"a" * 1000)
    aged(objects, 2)
    objects.put(name_of(b"arriving" * 100), b"arriving" * 100)
    thin(objects, 500)
    assert objects.trees() == []
    assert size_of(objects) == 800
    aged(objects, 2 * thinning.YOUNG_S_MAX / HOUR_S)
    assert thin(objects, 500) == 0


def test_what_came_before_an_erasure_goes_and_what_came_after_stays(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "project")
    kept(objects, a=b"a", both=b"both")
    aged(objects, 1)
    after = kept(objects, b=b"b", both=b"both")
    forget_before(objects, time.time() - HOUR_S / 2)
    assert objects.trees() == [after]
    assert objects.missing([name_of(b"a"), name_of(b"b"), name_of(b"both")]) == [name_of(b"a")]
    forget_before(objects, time.time() + HOUR_S)
    assert not objects.root.exists()


@pytest.mark.parametrize("piece", [1, 7, 40, 10_000])
def test_frames_come_apart_as_they_were_put_together(piece: int) -> None:
    contents = [b"", b"a", b"x" * 300]
    body = b"".join(framed(name_of(data), data) for data in contents)
    taken: list[tuple[str, bytes]] = []
    frames = Frames(lambda digest, data: taken.append((digest, data)))
    for at in range(0, len(body), piece):
        frames.feed(body[at : at + piece])
    frames.close()
    assert taken == [(name_of(data), data) for data in contents]


def test_a_body_that_ends_early_or_promises_too_much_is_refused() -> None:
    frames = Frames(lambda _digest, _data: None)
    frames.feed(framed(name_of(b"ab"), b"ab")[:-1])
    with pytest.raises(BadFrame, match="in the middle"):
        frames.close()
    with pytest.raises(BadFrame, match="at most 100000000"):
        Frames(lambda _digest, _data: None).feed(b"\0" * 32 + b"\xff" * 8)
