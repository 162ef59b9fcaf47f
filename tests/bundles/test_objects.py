"""What is kept: by its name or not at all, within a cap, until it is erased."""

import os
import time
from pathlib import Path

import pytest

from headrace.bundles import thinning
from headrace.bundles.arriving import HELD_BYTES_MAX, Arriving
from headrace.bundles.frames import HEAD, BadFrame, Frames, framed
from headrace.bundles.laying import lay
from headrace.bundles.manifest import FILES_MAX, File, encode_manifest, manifest_of, name_of
from headrace.bundles.objects import Damaged, Objects
from headrace.bundles.thinning import expire, forget_before, size_of, thin

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
    manifests = sum((tmp_path / "trees" / name).stat().st_size for name in names.values())
    room = 2_000 + manifests
    left = 2_000 + manifests * 2 // 3
    assert thin(objects, room, frozenset([names["pinned"]])) == size_of(objects) == left
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


class Taken:
    """A sink that remembers what it was given."""

    def __init__(self) -> None:
        self.contents: list[tuple[str, bytes]] = []
        self._digest, self._data = "", b""

    def begin(self, digest: str, size: int) -> None:
        del size
        self._digest, self._data = digest, b""

    def add(self, piece: memoryview) -> None:
        self._data += bytes(piece)

    def end(self) -> None:
        self.contents.append((self._digest, self._data))


@pytest.mark.parametrize("piece", [1, 7, 40, 10_000])
def test_frames_come_apart_as_they_were_put_together(piece: int) -> None:
    contents = [b"", b"a", b"x" * 300]
    body = b"".join(framed(name_of(data), data) for data in contents)
    taken = Taken()
    frames = Frames(taken)
    for at in range(0, len(body), piece):
        frames.feed(body[at : at + piece])
    frames.close()
    assert taken.contents == [(name_of(data), data) for data in contents]


def test_a_body_that_ends_early_or_promises_too_much_is_refused() -> None:
    frames = Frames(Taken())
    frames.feed(framed(name_of(b"ab"), b"ab")[:-1])
    with pytest.raises(BadFrame, match="in the middle"):
        frames.close()
    with pytest.raises(BadFrame, match="at most 100000000"):
        Frames(Taken()).feed(b"\0" * 32 + b"\xff" * 8)


@pytest.mark.security
def test_a_body_of_a_million_tiny_files_ends_at_the_most_that_travel(tmp_path: Path) -> None:
    arriving = Arriving(Objects(tmp_path))
    frames = Frames(arriving)
    for at in range(0, FILES_MAX, 1_000):
        contents = (b"%d" % (at + each) for each in range(1_000))
        frames.feed(b"".join(framed(name_of(data), data) for data in contents))
        assert arriving.held_bytes <= HELD_BYTES_MAX
    with pytest.raises(BadFrame, match=f"more than {FILES_MAX}"):
        frames.feed(framed(name_of(b"one more"), b"one more"))
    arriving.close()


@pytest.mark.security
def test_a_large_content_is_on_disk_as_it_comes_and_memory_holds_none_of_it(
    tmp_path: Path,
) -> None:
    objects, data = Objects(tmp_path), os.urandom(16_000_000)
    arriving, piece = Arriving(objects), 262_144
    frames, body = Frames(arriving), framed(name_of(data), data)
    for at in range(0, len(body), piece):
        frames.feed(body[at : at + piece])
        assert arriving.held_bytes == 0
        if at + piece < len(body):
            (file,) = (tmp_path / "incoming").iterdir()
            assert file.stat().st_size == at + piece - HEAD.size
    assert list((tmp_path / "incoming").iterdir()) == []
    assert objects.read(name_of(data), 0, len(data)) == data


@pytest.mark.security
def test_small_contents_are_held_up_to_a_bound_and_packed_beyond_it(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    arriving = Arriving(objects)
    frames, most = Frames(arriving), 0
    contents = [os.urandom(100_000) for _ in range(100)]
    for data in contents:
        frames.feed(framed(name_of(data), data))
        most = max(most, arriving.held_bytes)
    assert most < HELD_BYTES_MAX
    arriving.close()
    assert objects.missing(name_of(data) for data in contents) == []


@pytest.mark.security
def test_an_upload_that_is_abandoned_leaves_no_file_behind(tmp_path: Path) -> None:
    objects, data = Objects(tmp_path), os.urandom(3_000_000)
    arriving = Arriving(objects)
    Frames(arriving).feed(framed(name_of(data), data)[:2_000_000])
    assert size_of(objects) > 1_900_000
    arriving.close()
    assert (size_of(objects), objects.has(name_of(data))) == (0, False)


@pytest.mark.security
def test_a_large_content_under_another_name_is_not_kept(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    with pytest.raises(Damaged):
        Frames(Arriving(objects)).feed(framed(name_of(b"other"), b"x" * 2_000_000))
    assert size_of(objects) == 0


@pytest.mark.security
def test_what_no_folder_names_counts_and_expires(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    name = kept(objects, a=b"a" * 1000)
    objects.put(name_of(b"orphan" * 100), b"orphan" * 100)
    objects.put_part(name_of(b"part"), 1000, 0, b"x" * 500)
    manifest = (tmp_path / "trees" / name).stat().st_size
    assert size_of(objects) == expire(objects) == 1000 + 600 + 500 + manifest
    aged(objects, 2)
    assert expire(objects) == size_of(objects) == 1000 + manifest
    assert objects.missing([name_of(b"a" * 1000)]) == []
