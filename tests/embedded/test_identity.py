"""A data dir is told from its copies, and goes on as itself wherever it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.embedded import EmbeddedError, identity
from headrace.embedded.default_folder import SHARED_DIR, default_data_dir
from headrace.embedded.layout import Layout


@pytest.fixture
def made(tmp_path: Path) -> Layout:
    """A folder as a platform leaves it that has run."""
    one = Layout(tmp_path / "data")
    one.create()
    identity.settle(one, "", is_restored=False)
    known = identity.read(one)
    assert known is not None
    known.lineage, known.epoch, known.position = "a" * 32, 1, 7
    identity.write(one, known)
    (one.postgres() / "data").mkdir(parents=True)
    (one.postgres() / "data" / "PG_VERSION").write_text("18\n")
    (one.secrets / "master.key").write_bytes(b"k" * 32)
    (one.secrets / "grant.key").write_bytes(b"g" * 32)
    one.settings.write_text("{}")
    return one


def copied(source: Path, target: Path) -> Layout:
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    return Layout(target)


def known_of(one: Layout) -> identity.Identity:
    known = identity.read(one)
    assert known is not None
    return known


def test_it_is_itself_by_another_name_and_after_a_change_of_modes(made: Layout) -> None:
    identity.check(made)
    elsewhere = made.data_dir.with_name("elsewhere")
    made.data_dir.rename(elsewhere)
    subprocess.run(["chmod", "-R", "g-rwx", str(elsewhere)], check=True)
    one = Layout(elsewhere)
    identity.check(one)
    identity.settle(one, "", is_restored=False)
    assert known_of(one).place.path == str(elsewhere)
    assert not known_of(one).how


def test_it_is_itself_in_another_container(made: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "CONTAINER_MARKS", (Path("/"),))
    identity.check(made)
    identity.settle(made, "", is_restored=False)
    assert known_of(made).place.machine == ""
    identity.check(made)


def test_another_machine_needs_a_word(
    made: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(identity, "CONTAINER_MARKS", ())
    monkeypatch.setattr(identity, "MACHINE_ID", tmp_path / "one")
    identity.settle(made, "", is_restored=False)
    monkeypatch.setattr(identity, "MACHINE_ID", tmp_path / "two")
    with pytest.raises(EmbeddedError, match="--moved"):
        identity.check(made)


def test_a_copy_is_refused_with_the_two_ways_out(made: Layout) -> None:
    copy = copied(made.data_dir, made.data_dir.with_name("copy"))
    with pytest.raises(EmbeddedError, match=f"is a copy of {made.data_dir}: .* --fork"):
        identity.check(copy)
    with pytest.raises(EmbeddedError, match="the original is still at"):
        identity.settle(copy, identity.MOVED, is_restored=False)
    identity.check(made)
    shutil.rmtree(made.data_dir)
    with pytest.raises(EmbeddedError, match=r"--moved, if .* or --fork"):
        identity.check(copy)
    identity.settle(copy, identity.MOVED, is_restored=False)
    identity.check(copy)
    assert known_of(copy).how == "restored", "nodes may know more than was copied"


def test_a_folder_that_was_put_back_in_place_needs_a_word(made: Layout) -> None:
    backup = made.data_dir.with_name("backup")
    copied(made.data_dir, backup)
    shutil.rmtree(made.data_dir)
    copied(backup, made.data_dir)
    with pytest.raises(EmbeddedError, match="--moved, if it was moved or restored"):
        identity.check(made)


def test_a_fork_has_no_key_of_the_original_but_what_opens_the_log(made: Layout) -> None:
    copy = copied(made.data_dir, made.data_dir.with_name("copy"))
    (copy.nodes / "n1").mkdir()
    (copy.run / "n1.json").write_text("{}")
    identity.settle(copy, identity.FORK, is_restored=False)
    assert {file.name for file in copy.secrets.iterdir()} == {"master.key"}
    assert not list(copy.nodes.iterdir())
    assert not list(copy.run.iterdir())
    assert known_of(copy).how == "forked"
    assert (made.secrets / "grant.key").exists()


def test_words_for_a_folder_that_is_where_it_was_are_refused(made: Layout) -> None:
    for word in (identity.MOVED, identity.FORK):
        with pytest.raises(EmbeddedError, match="is where it was, and no copy"):
            identity.settle(made, word, is_restored=False)


@pytest.mark.parametrize(
    "part", ["secrets/master.key", "postgres/data/PG_VERSION", "settings.json"]
)
def test_a_folder_that_is_not_whole_is_refused(made: Layout, part: str) -> None:
    (made.data_dir / part).unlink()
    with pytest.raises(EmbeddedError, match=r"is not whole, .* is missing"):
        identity.settle(made, "", is_restored=False)


def test_a_log_never_gets_new_keys(tmp_path: Path) -> None:
    one = Layout(tmp_path / "data")
    one.create()
    one.postgres().mkdir()
    with pytest.raises(EmbeddedError, match="has a log and lacks its keys"):
        identity.settle(one, "", is_restored=False)


def test_everything_lies_in_the_folder(tmp_path: Path) -> None:
    one = Layout(tmp_path / "data")
    assert one.postgres().is_relative_to(one.data_dir)
    one.create()
    (one.data_dir / "postgres.json").write_text('{"base": "/var/lib/headrace/x"}')
    with pytest.raises(EmbeddedError, match="mv /var/lib/headrace/x"):
        one.postgres()


def test_roots_own_folder_is_one_that_postgres_can_get_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    expected = SHARED_DIR / "platform"
    if os.geteuid() != 0:
        expected = Path.home() / ".local" / "share" / "headrace"
    assert default_data_dir() == expected
