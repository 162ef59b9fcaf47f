"""What a receiver of a folder believes: nothing that could be written outside of one."""

import errno
import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.bundles.laying import lay
from headrace.bundles.manifest import (
    BadManifest,
    File,
    Manifest,
    check_windows,
    encode_manifest,
    manifest_of,
    name_of,
    read_manifest,
)
from headrace.bundles.objects import Objects

CONTENT = name_of(b"x")

BAD = [
    ([File("../a", 1, CONTENT)], "leads out"),
    ([File("/a", 1, CONTENT)], "leads out"),
    ([File("a//b", 1, CONTENT)], "leads out"),
    ([File("a/./b", 1, CONTENT)], "leads out"),
    ([File("a\0b", 1, CONTENT)], "leads out"),
    ([File("a" * 1025, 1, CONTENT)], "1024 bytes"),
    ([File("a", 1, CONTENT), File("a", 1, CONTENT)], "not in order"),
    ([File("b", 1, CONTENT), File("a", 1, CONTENT)], "not in order"),
    ([File("a", target="."), File("a/b", 1, CONTENT)], "below something"),
    ([File("a", 1, CONTENT), File("a/b", 1, CONTENT)], "below something"),
    ([File("a", target="/etc/passwd")], "link out"),
    ([File("a", target="..")], "link out"),
    ([File("a/b", target="../../c")], "link out"),
    ([File("a", target="b/../../c")], "link out"),
    ([File("a")], "link out"),
    ([File("a", 1, "../../etc/passwd")], "no proper content"),
    ([File("a", -1, CONTENT)], "no proper content"),
    ([File("a", 100_000_001, CONTENT)], "at most 100 MB"),
]


@pytest.mark.parametrize(("files", "said"), BAD)
def test_a_manifest_that_leads_anywhere_else_is_refused(files: list[File], said: str) -> None:
    with pytest.raises(BadManifest, match=said):
        read_manifest(msgspec.json.encode(Manifest(files=tuple(files))))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"files": 1}', b"\xff", b"[" * 5000])
def test_what_is_no_manifest_is_refused_with_a_line(data: bytes) -> None:
    with pytest.raises(BadManifest) as refused:
        read_manifest(data)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "path",
    ["..\\..\\evil", "C:evil", "a/C:/evil", "a/nul", "COM1.txt", "a.", "b /c", "x?", "a\tb"],
)
def test_what_would_lead_elsewhere_on_windows_is_not_written_there(path: str) -> None:
    for file in (File(path, 1, CONTENT), File("link", target=path)):
        with pytest.raises(BadManifest, match="cannot be a name on Windows"):
            check_windows(Manifest((file,)))


def test_ordinary_names_are_written_on_windows() -> None:
    names = ("a/b.c", ".hidden", "...", "console", "com10x", "漢字 x.txt", "nul-1/a")
    check_windows(Manifest((*(File(name, 1, CONTENT) for name in names), File("l", target="../a"))))


def test_the_same_files_have_the_same_name_in_whatever_order_they_were_found() -> None:
    files = [File("b", 1, CONTENT), File("a/c", 1, CONTENT), File("a", target="b")][:2]
    one, other = manifest_of(files), manifest_of(reversed(files))
    assert name_of(encode_manifest(one)) == name_of(encode_manifest(other))


NAMES = st.sampled_from(["a", "b", "..", ".", "", "c\n", "ü"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
FILES = st.lists(
    st.one_of(
        st.builds(File, PATHS, st.just(1), st.just(CONTENT)),
        st.builds(File, PATHS, target=PATHS),
    ),
    max_size=6,
)


@settings(max_examples=60)
@example([File("a", target="a//a")])
@given(FILES)
def test_whatever_is_accepted_stays_inside_the_folder(files: list[File]) -> None:
    data = msgspec.json.encode(manifest_of(files))
    try:
        manifest = read_manifest(data)
    except BadManifest:
        return
    with tempfile.TemporaryDirectory() as made:
        objects = Objects(Path(made) / "kept")
        objects.put(CONTENT, b"x")
        inside = Path(made) / "around" / "inside"
        inside.parent.mkdir()
        lay(objects, manifest, inside)
        assert os.listdir(inside.parent) == ["inside"]
        for path in inside.rglob("*"):
            assert is_circular(path) or Path(os.path.realpath(path)).is_relative_to(inside)


def is_circular(path: Path) -> bool:
    """Whether a link leads to itself, and so nowhere: `realpath` says of some that it leads out."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno == errno.ELOOP
    return False
