"""The way into folders that a job can write: no link leads it anywhere, and nothing makes it wait."""

import errno
import os
import resource
import stat
from pathlib import Path

import pytest

from headrace.node_agent.supervision import beneath, removing
from headrace.node_agent.supervision.beneath import Folder, Reader

NO_SYSCALL = 10_000


@pytest.fixture(params=["openat2", "a kernel before 5.6"], autouse=True)
def _kernel(request, monkeypatch):
    if request.param != "openat2":
        monkeypatch.setattr(beneath, "_OPENAT2", NO_SYSCALL)


@pytest.fixture
def outside(tmp_path):
    made = tmp_path / "outside"
    made.mkdir()
    (made / "secret").write_text("secret")
    return made


@pytest.fixture
def folder(tmp_path, outside):
    made = tmp_path / "folder"
    (made / "real").mkdir(parents=True)
    (made / "real" / "file").write_text("mine")
    (made / "link").symlink_to(outside)
    (made / "real" / "up").symlink_to("..")
    (made / "direct").symlink_to(outside / "secret")
    with Folder.at(made) as opened:
        yield opened


OUT = ["link/secret", "real/up/real/file", "../outside/secret", "real/../../outside/secret"]


@pytest.mark.parametrize("path", [*OUT, "direct", "/etc/passwd"])
def test_no_path_leads_through_a_link_or_out(folder, outside, path):
    ways = [
        lambda: folder.read(path, 100),
        lambda: folder.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        lambda: folder.write(path, b"new"),
    ]
    for way in ways:
        with pytest.raises(OSError, match=r".") as refused:
            way()
        assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR, errno.EEXIST, errno.EINVAL)
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.parametrize("path", ["link/new", "link/deep/new", "real/up/new", "../outside/new"])
def test_nothing_is_made_moved_given_or_removed_through_a_link(folder, outside, tmp_path, path):
    (tmp_path / "source").mkdir()
    ways = [
        lambda: folder.make(path),
        lambda: folder.make_way(f"{path}/x"),
        lambda: folder.take(str(tmp_path / "source"), path),
        lambda: folder.link("/", path),
        lambda: folder.hand_over(path.replace("new", "secret"), 1, 1),
        lambda: folder.remove(path.replace("new", "secret")),
    ]
    for way in ways:
        with pytest.raises(OSError, match=r"."):
            way()
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").stat().st_uid == os.geteuid()
    assert (tmp_path / "source").exists()


def test_only_regular_files_are_read_and_nobody_is_waited_for(folder, tmp_path):
    os.mkfifo(tmp_path / "folder" / "pipe")
    assert folder.read("real/file", 2) == b"mi"
    for path in ("pipe", "real", "direct"):
        with pytest.raises(OSError, match=r"regular file|link"):
            folder.read(path, 100)
    with pytest.raises(FileNotFoundError):
        folder.read("real/none", 100)


def test_a_file_is_read_for_an_account_that_may_read_it_itself(folder, tmp_path):
    path = tmp_path / "folder" / "real" / "file"
    own = path.stat()
    allowed = []
    for mode in (0o600, 0o640, 0o604):
        path.chmod(mode)
        about = path.stat()
        readers = [
            Reader(own.st_uid, 1), Reader(4_000_000, own.st_gid), Reader(4_000_000, 1), Reader(0, 0)
        ]  # fmt: skip
        allowed.append([reader.may_read(about) for reader in readers])
    assert allowed == [
        [True, False, False, True],
        [True, True, False, True],
        [True, False, True, True],
    ]
    path.chmod(0o600)
    with pytest.raises(PermissionError):
        folder.regular("real/file", Reader(4_000_000, 1))


def test_what_is_made_has_the_mode_that_was_asked_for(folder, tmp_path):
    assert folder.make_way("real/a/b/c") == ["real/a", "real/a/b"]
    assert folder.make_way("real/a/b/c") == []
    folder.write("real/a/b/c", b"#!/bin/sh", 0o755)
    assert stat.S_IMODE((tmp_path / "folder/real/a/b/c").stat().st_mode) == 0o755
    with pytest.raises(FileExistsError):
        folder.write("real/a/b/c", b"")


def test_a_folder_of_any_depth_goes_with_two_descriptors_and_no_link_is_followed(tmp_path, outside):
    (tmp_path / "deep").mkdir()
    at = os.open(tmp_path / "deep", os.O_RDONLY)
    for number in range(3_000):
        os.symlink(outside, "away", dir_fd=at)
        os.mkdir(f".{number}.0", dir_fd=at)
        below = os.open(f".{number}.0", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, limits[1]))
    try:
        beneath.remove(tmp_path / "deep")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not (tmp_path / "deep").exists()
    assert os.listdir(outside) == ["secret"]


def test_a_link_in_the_place_of_a_folder_goes_alone(tmp_path, outside):
    (tmp_path / "link").symlink_to(outside)
    beneath.remove(tmp_path / "link")
    beneath.remove(tmp_path / "nothing" / "here")
    assert not (tmp_path / "link").is_symlink()
    assert os.listdir(outside) == ["secret"]


def test_more_names_than_are_looked_at_together_go_too(tmp_path, monkeypatch):
    monkeypatch.setattr(removing, "_AT_ONCE", 3)
    for above in ("", "a", "a/b"):
        for number in range(10):
            path = Path(tmp_path, "many", above, f"f{number}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    beneath.remove(tmp_path / "many")
    assert os.listdir(tmp_path) == []


def test_every_folder_is_walked_and_no_link_is(folder, tmp_path):
    (tmp_path / "folder" / "real" / "deep" / "er").mkdir(parents=True)
    found = [sorted(entry.name for entry in entries) for _, entries in folder.walk()]
    assert found == [["direct", "link", "real"], ["deep", "file", "up"], ["er"], []]
