"""What of a folder travels, and what is refused before anything is sent."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.bundles import packing
from headrace.bundles.manifest import BadManifest, name_of
from headrace.bundles.packing import Vanished, pack

NOBODY = 65_534


def folder_with(tmp_path: Path, files: dict[str, str]) -> Path:
    folder = tmp_path / "folder"
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def travelling(folder: Path) -> set[str]:
    return {file.path for file in pack(folder, {}).manifest.files}


IGNORING = {
    ".gitignore": "*.pyc\n/build/\nlogs/*\n!logs/keep.txt\n",
    ".headraceignore": "!kept.pyc\nsecret.txt\n",
    "train.py": "",
    "a.pyc": "",
    "kept.pyc": "",
    "build/x": "",
    "src/build/x": "",
    "logs/a.txt": "",
    "logs/keep.txt": "",
    "src/secret.txt": "",
    "src/.gitignore": "*.tmp\n!/a.pyc\n",
    "src/a.tmp": "",
    "src/a.pyc": "",
    "data/.gitignore": "*\n",
    "data/x": "",
    ".git/config": "",
}


def test_ignore_files_are_read_at_every_level_and_the_deeper_one_wins(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, IGNORING)
    assert travelling(folder) == {
        ".gitignore", ".headraceignore", "train.py", "kept.pyc", "src/build/x", "logs/keep.txt",
        "src/.gitignore", "src/a.pyc",
    }  # fmt: skip


def test_git_itself_would_take_the_same_files(tmp_path: Path) -> None:
    files = {name: text for name, text in IGNORING.items() if "headrace" not in name}
    folder = folder_with(tmp_path, {k: v for k, v in files.items() if not k.startswith(".git/")})
    subprocess.run(["git", "init", "-q", folder], check=True)
    command = ["git", "-C", folder, "ls-files", "--others", "--exclude-standard"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert travelling(folder) == set(said)


def test_a_part_of_a_repository_is_ignored_by_the_rules_above_it(tmp_path: Path) -> None:
    repository = folder_with(tmp_path, {".gitignore": "/part/big/\n*.log\n", "part/a.log": ""})
    (repository / ".git").mkdir()
    part = folder_with(repository, {"x": ""}).parent / "part"
    (part / "big").mkdir()
    (part / "big" / "x").write_text("")
    (part / "b.py").write_text("")
    assert travelling(part) == {"b.py"}


def test_links_inside_travel_and_links_out_are_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"a/b.txt": "hello"})
    (folder / "a" / "link").symlink_to("../a/b.txt")
    (folder / "folder").symlink_to("a")
    found = {file.path: file.target for file in pack(folder, {}).manifest.files}
    assert found == {"a/b.txt": "", "a/link": "../a/b.txt", "folder": "a"}
    (folder / "passwords").symlink_to("/etc/passwd")
    with pytest.raises(BadManifest, match="passwords is a link out of the folder"):
        pack(folder, {})


def test_what_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"a": ""})
    os.mkfifo(folder / "pipe")
    with pytest.raises(BadManifest, match="pipe is neither a file nor a folder"):
        pack(folder, {})


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"a": ""})
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_text("")
    with pytest.raises(BadManifest, match="not UTF-8"):
        pack(folder, {})


def test_too_much_is_refused_with_what_is_largest_before_it_is_read(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"a.py": ""})
    (folder / "data").mkdir()
    with (folder / "data" / "huge").open("wb") as huge:
        huge.truncate(10**12)
    with pytest.raises(BadManifest, match=r"more than 100 MB.*data 1000000 MB.*headraceignore"):
        pack(folder, {})


@pytest.fixture
def nobody() -> Iterator[None]:
    """Root can read everything, so that it is somebody else here."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(before)


@pytest.mark.parametrize("hidden", ["a", "below"])
def test_what_cannot_be_read_is_named(nobody: None, hidden: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = folder_with(Path(made), {"a": "x", "below/b": "y"})
        (folder / hidden).chmod(0)
        with pytest.raises(BadManifest, match=f"{hidden} cannot be read: Permission denied"):
            pack(folder, {})
        (folder / hidden).chmod(0o700)


def test_what_goes_while_it_is_looked_at_is_named(tmp_path: Path, monkeypatch) -> None:
    folder = folder_with(tmp_path, {"a": "x"})
    monkeypatch.setattr(packing, "hash_file", lambda path: os.open(f"{path}.gone", os.O_RDONLY))
    with pytest.raises(Vanished, match=r"a\.gone"):
        pack(folder, {})


def test_folders_without_end_are_refused_by_name(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"src/a.py": ""})
    (folder / "src" / "/".join(["deeper"] * 150)).mkdir(parents=True)
    with pytest.raises(BadManifest, match="src has a path of more than 1024 bytes; ignore it"):
        pack(folder, {})


def test_a_file_is_hashed_again_when_anything_about_it_changed(tmp_path: Path, monkeypatch) -> None:
    folder = folder_with(tmp_path, {"a": "one", "b": "two"})
    later_ns = time.time_ns() + packing.FRESH_COARSE_NS
    monkeypatch.setattr(packing.time, "time_ns", lambda: later_ns)
    first = pack(folder, {})
    again = pack(folder, first.known)
    assert (again[:2], again.held) == (first[:2], {})
    times = (folder / "a").stat()
    (folder / "a").write_text("ONE")
    os.utime(folder / "a", ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = pack(folder, first.known)
    assert changed.manifest != first.manifest
    assert changed.held == {name_of(b"ONE"): b"ONE"}


def test_what_was_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"a": "one"})
    assert pack(folder, {}).known == {}
