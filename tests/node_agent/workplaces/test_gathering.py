"""What a worker left behind is taken with care: it may be anything, and as much as fits on a disk."""

import os

import pytest

from headrace.bundles.manifest import BadManifest, File, name_of
from headrace.node_agent.supervision.beneath import Folder, Reader
from headrace.node_agent.workplaces import gathering, leaving
from headrace.node_agent.workplaces.gathering import gather

OWN = Reader(os.geteuid(), os.getegid())


@pytest.fixture
def attempt(tmp_path):
    (tmp_path / "work" / "model").mkdir(parents=True)
    with Folder.at(tmp_path) as opened:
        yield opened


def gathered(attempt, *paths):
    return gather(attempt, "work", paths, OWN)


def test_files_programs_and_links_are_taken_as_they_are(attempt, tmp_path):
    model = tmp_path / "work" / "model"
    (model / "w").write_text("weights")
    (model / "run").write_text("#!")
    (model / "run").chmod(0o755)
    (model / "last").symlink_to("w")
    manifest, where = gathered(attempt, "model", "nothing", "model/none")
    assert manifest.files == (
        File("model/last", target="w"),
        File("model/run", 2, name_of(b"#!"), executable=True),
        File("model/w", 7, name_of(b"weights")),
    )
    assert where[name_of(b"weights")] == "work/model/w"


def test_of_the_whole_folder_is_taken_what_can_be(attempt, tmp_path):
    work = tmp_path / "work"
    (work / "model" / "w").write_text("weights")
    (work / ".notes").write_text("mine")
    (work / "python").symlink_to("/usr/bin/python3")
    os.mkfifo(work / "model" / "pipe")
    (work / "model" / os.fsdecode(b"\xff")).write_text("")
    manifest, where = gathered(attempt, ".")
    assert [file.path for file in manifest.files] == [".notes", "model/w"]
    assert where[name_of(b"mine")] == "work/.notes"


def test_a_star_stands_for_any_part_of_a_name(attempt, tmp_path):
    for name in ("a_1.out", "a_2.out", "a_1.err", "b[1.out"):
        (tmp_path / "work" / "model" / name).write_text(name)
    (tmp_path / "work" / "out").symlink_to("/etc")
    paths = [file.path for file in gathered(attempt, "mod*/a_*.out", "*/b[*.out", "out/*")[0].files]
    assert paths == ["model/a_1.out", "model/a_2.out", "model/b[1.out"]


def test_what_is_named_through_a_link_is_left_out(attempt, tmp_path):
    (tmp_path / "work" / "etc").symlink_to("/etc")
    assert gathered(attempt, "etc/passwd")[0].files == ()


def test_folders_without_end_are_refused_and_removed(attempt, tmp_path):
    at = os.open(tmp_path / "work" / "model", os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    with pytest.raises(BadManifest, match="model has a path of more than 1024 bytes"):
        gathered(attempt, "model")
    leaving._clear(tmp_path)
    assert not (tmp_path / "work").exists()


def test_more_than_is_kept_is_refused_before_it_is_read(attempt, tmp_path, monkeypatch):
    with (tmp_path / "work" / "model" / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(BadManifest, match="4398046 MB; at most 20000 MB"):
        gathered(attempt, "model")
    (tmp_path / "work" / "model" / "sparse").unlink()
    monkeypatch.setattr(gathering, "FOLDERS_MAX", 2)
    for number in range(3):
        (tmp_path / "work" / "model" / str(number)).mkdir()
    with pytest.raises(BadManifest, match="more than 2 folders"):
        gathered(attempt, "model")
    monkeypatch.setattr(gathering, "WAITING_MAX", 2)
    with pytest.raises(BadManifest, match="model has more than 2 names"):
        gathered(attempt, "model")


NAMES = ["a\nforged line", "\x1b]0;title\x07", "\u202egpj"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_does_not_write_into_the_message(attempt, tmp_path, name):
    os.mkfifo(tmp_path / "work" / "model" / name)
    with pytest.raises(BadManifest, match="is neither a file nor a folder nor a link") as refused:
        gathered(attempt, "model")
    assert str(refused.value).isprintable()


def test_a_name_that_is_no_text_is_refused(attempt, tmp_path):
    (tmp_path / "work" / "model" / os.fsdecode(b"\xff")).touch()
    with pytest.raises(BadManifest, match="not UTF-8"):
        gathered(attempt, "model")


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_nothing_is_taken_that_the_jobs_account_may_not_read(attempt, tmp_path):
    nobody = Reader(65_534, 65_534)
    (tmp_path / "work" / "model").chmod(0o755)
    (tmp_path / "work" / "model" / "w").write_text("root's")
    (tmp_path / "work" / "model" / "w").chmod(0o600)
    with pytest.raises(BadManifest, match="model/w cannot be read: Permission denied"):
        gather(attempt, "work", ("model",), nobody)
    (tmp_path / "work" / "model").chmod(0o700)
    with pytest.raises(BadManifest, match="model cannot be read: it belongs to another account"):
        gather(attempt, "work", ("model",), nobody)
