"""A folder of somebody's laptop, run on the nodes of a whole platform."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

TRAIN = """
import os, model
rank = os.environ["HEADRACE_NODE_RANK"]
print("rank", rank, "learns", model.NAME, "beside", sorted(os.listdir(".")))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of code, with data that stays at home."""
    files = {
        "train.py": TRAIN,
        "model.py": "NAME = 'digits'\n",
        ".gitignore": "data/\n__pycache__/\n",
        "data/huge.bin": "x",
    }
    for path, text in files.items():
        (tmp_path / "code" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / path).write_text(text)
    return tmp_path / "code"


def test_a_folder_runs_on_two_nodes_and_only_what_changed_follows(platform, folder) -> None:
    (folder / "job.yaml").write_text(
        "name: learn\nworkdir: .\nnodes: 2\nresources: {gpus: 8}\ncommand: python train.py\n"
    )
    said = platform.headrace("submit", "--follow", str(folder / "job.yaml")).stdout
    for rank in (0, 1):
        assert f"rank {rank} learns digits beside ['.gitignore', " in said
    assert "'data'" not in said
    (folder / "model.py").write_text("NAME = 'letters'\n")
    said = platform.headrace("submit", "--follow", str(folder / "job.yaml")).stdout
    assert said.count("learns letters") == 2


FEATURES = """
import os, pathlib
rank = os.environ["HEADRACE_NODE_RANK"]
pathlib.Path("features").mkdir()
pathlib.Path(f"features/part-{rank}.txt").write_text(f"features of {rank}")
"""


def test_a_dependent_job_finds_what_both_nodes_left_and_so_does_its_user(
    platform, folder, tmp_path: Path
) -> None:
    (folder / "features.py").write_text(FEATURES)
    first = (
        "name: features\nworkdir: .\nnodes: 2\nresources: {gpus: 8}\n"
        "outputs: [features/]\ncommand: python features.py\n"
    )
    (folder / "job.yaml").write_text(first)
    said = platform.headrace("submit", "--wait", str(folder / "job.yaml")).stdout
    job = said.split()[0]
    second = (
        f"name: train\nvolumes: [job/{job}:in]\nresources: {{gpus: 8}}\n"
        "command: cat in/0/features/part-0.txt in/1/features/part-1.txt\n"
    )
    (folder / "train.yaml").write_text(second)
    said = platform.headrace("submit", "--follow", str(folder / "train.yaml")).stdout
    assert "features of 0features of 1" in said
    fetched = platform.headrace("outputs", job, "-o", str(tmp_path / "got")).stdout
    assert fetched.split() == [
        str(tmp_path / "got" / rank / "features" / f"part-{rank}.txt") for rank in "01"
    ]
    assert (tmp_path / "got" / "1" / "features" / "part-1.txt").read_text() == "features of 1"


def test_a_volume_says_where_a_job_runs_and_the_job_finds_it(platform, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("of the volume")
    (tmp_path / "volume.yaml").write_text(f"type: volume\nname: e2e\npath: {tmp_path}/data\n")
    assert "e2e created" in platform.headrace("apply", "-f", str(tmp_path / "volume.yaml")).stdout
    (tmp_path / "job.yaml").write_text("name: reads\nvolumes: [e2e:in]\ncommand: cat in/x\n")
    said = platform.headrace("submit", "--follow", str(tmp_path / "job.yaml")).stdout
    assert "of the volume" in said


def test_the_record_has_the_folders_name_and_nothing_that_is_in_it(platform, folder) -> None:
    job = platform.headrace(
        "run", "--detach", "--workdir", str(folder), "--name", "named", "--", "true"
    ).stdout.split()[0]
    platform.ended(job)
    events = platform.headrace("events", "--job", job, "-o", "json").stdout
    (requested,) = [line for line in events.splitlines() if "job.requested.v1" in line]
    assert len(msgspec.json.decode(requested)["data"]["bundle"]) == 64
    assert "digits" not in events


def test_a_folder_that_cannot_travel_is_refused_in_one_line(platform, folder) -> None:
    (folder / "passwords").symlink_to("/etc/passwd")
    done = platform.headrace("run", "--workdir", str(folder), "--", "true", check=False)
    assert done.returncode == 120
    assert done.stderr.count("\n") == 1
    assert "passwords is a link out of the folder" in done.stderr


def test_a_repository_that_cannot_be_reached_ends_the_job_with_that_reason(platform) -> None:
    workdir = "git+https://127.0.0.1:1/repo@0123456789abcdef0123456789abcdef01234567"
    done = platform.headrace(
        "run", "--gpus", "1", "--workdir", workdir, "--name", "cloned", "--", "true", check=False
    )
    assert "unable to access 'https://127.0.0.1:1/repo/'" in done.stdout + done.stderr
    assert done.returncode != 0
    platform.wait_free()


def test_erasing_a_project_removes_what_travelled(platform, folder, tmp_path: Path) -> None:
    (tmp_path / "erased.yaml").write_text(
        "type: project\nname: erased\ndepartment: \ngpus: {quota: 1}\n"
    )
    platform.headrace("apply", "-f", str(tmp_path / "erased.yaml"))
    run = ("run", "--project", "erased", "--workdir", str(folder), "--", "python3", "train.py")
    platform.headrace(*run)
    kept = platform.data_dir / "files" / "erased"
    assert b"NAME = 'digits'" in _all_of(kept)
    platform.headrace("erase", "erased", "--yes", check=False)
    platform.wait(lambda: _all_of(kept) == b"", "its files are gone")


def _all_of(folder: Path) -> bytes:
    files = subprocess.run(["cat", *folder.rglob("*")], capture_output=True, check=False)
    return files.stdout if folder.exists() else b""
