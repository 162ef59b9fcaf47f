"""A log that was put back from an older copy, under nodes and jobs that have gone on."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from headrace.embedded import identity, processes
from headrace.testing.running import removed_at_the_end

from .conftest import Platform, running_platform

END_S_MAX = 60.0
HELD = "while [ ! -e {flag} ]; do sleep 0.05; done"


@pytest.mark.restore
def test_a_fleet_goes_on_from_an_older_log_with_what_runs(tmp_path: Path) -> None:
    flags = [tmp_path / name for name in ("long", "later")]
    with running_platform("--nodes", "2", "--gpus", "simulated:2xH100-80GB") as platform:
        down = ("down", "--keep-jobs", "--data-dir", str(platform.data_dir))
        up = ("up", "--detach", "--data-dir", str(platform.data_dir))
        cluster = platform.layout.postgres() / "data"
        long = submitted(platform, flags[0], 2)
        platform.headrace(*down)
        shutil.copytree(cluster, platform.home / "backup", symlinks=True)
        owner = cluster.stat()

        platform.headrace(*up)
        later = submitted(platform, flags[1], 2)
        where = node_of(platform, later)
        platform.headrace(*down)

        shutil.rmtree(cluster)
        shutil.copytree(platform.home / "backup", cluster, symlinks=True)
        for path in (cluster, *cluster.rglob("*")):
            shutil.chown(path, owner.st_uid, owner.st_gid)
        said = refused(platform, *up)
        assert "restored from an older copy" in said
        assert "headrace up --restored" in said

        platform.headrace(*up, "--restored")
        platform.wait_ready()
        platform.wait(lambda: not _apart(platform, long), "the node with the job follows")
        row = platform.described(long)["job"]
        assert row["state"] == "running", row
        platform.wait(lambda: f"node end-strays {where}" in status(platform), "its stray is said")
        described = platform.headrace("node", "describe", where).stdout
        assert later in described

        fresh = platform.headrace("run", "--detach", "--gpus", "2", "--", "true").stdout.split()[0]
        assert platform.described(fresh)["job"]["state"] != "running"
        platform.headrace("node", "end-strays", where)
        assert platform.ended(fresh)["state"] == "succeeded"
        assert "end-strays" not in status(platform)

        flags[0].touch()
        assert platform.ended(long)["state"] == "succeeded"
        assert (starts(platform, long), starts(platform, later)) == (1, 1)
        platform.verify()


def _apart(platform: Platform, job: str) -> str:
    nodes = platform.json("node", "list")
    return "".join(row.get("apart", "") for row in nodes if job in row.get("jobs", ()))


@pytest.mark.restore
def test_a_copied_folder_is_refused_and_deleting_it_leaves_the_original(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with running_platform("--nodes", "1", "--gpus", "simulated:2xH100-80GB") as platform:
        job = submitted(platform, flag, 1)
        copy = platform.home / "copy"
        copied(platform.data_dir, copy)
        for verb in (("up", "--detach"), ("status",), ("down",)):
            said = refused(platform, *verb, "--data-dir", str(copy))
            assert f"is a copy of {platform.data_dir}" in said
            assert "--fork" in said
        said = refused(platform, "up", "--detach", "--moved", "--data-dir", str(copy))
        assert f"the original is still at {platform.data_dir}" in said
        platform.headrace("down", "--delete-data", "--yes", "--data-dir", str(copy))
        assert not copy.exists()
        assert platform.report().ready
        flag.touch()
        assert platform.ended(job)["state"] == "succeeded"
        platform.verify()


@pytest.mark.restore
def test_a_renamed_folder_goes_on_and_a_moved_one_with_a_word(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with running_platform("--nodes", "1", "--gpus", "simulated:2xH100-80GB") as platform:
        job = submitted(platform, flag, 1)
        platform.down("--keep-jobs")
        elsewhere = platform.home / "elsewhere"
        platform.data_dir.rename(elsewhere)
        elsewhere.rename(platform.data_dir)
        platform.up()
        platform.down("--keep-jobs")

        copied(platform.data_dir, elsewhere)
        platform.up()
        later = submitted(platform, tmp_path / "never", 1)  # the copy knows nothing of it
        platform.down("--keep-jobs")
        shutil.rmtree(platform.data_dir)
        elsewhere.rename(platform.data_dir)  # other files by the same name
        said = refused(platform, "up", "--detach", "--data-dir", str(platform.data_dir))
        assert "--moved, if it was moved or restored" in said

        # The jobs run on in the folder that is no more: their GPUs would be given a second time.
        said = refused(platform, "up", "--detach", "--moved", "--data-dir", str(platform.data_dir))
        assert f"jobs still run where it was ({', '.join(sorted((job, later)))})" in said
        for pid in said.partition("kill ")[2].partition(" ends")[0].split():
            left = processes.identify(int(pid))
            assert left is not None
            processes.send(left, signal.SIGTERM)
            assert processes.wait_exit(left, END_S_MAX)

        platform.up("--moved")
        platform.wait(lambda: not _apart(platform, job), "the node follows")
        platform.wait(lambda: starts(platform, job) == 2, "it starts anew")
        flag.touch()
        assert platform.ended(job)["state"] == "succeeded"
        lines = [line.split() for line in platform.journal.read_text().splitlines()]
        words = [line[0] for line in lines if job in line]
        assert words[:2] == ["start", "end"], "it ended before it started anew"
        platform.verify()


@pytest.mark.restore
def test_a_fork_has_no_part_in_the_originals_nodes_bus_and_jobs(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with running_platform("--nodes", "1", "--gpus", "simulated:2xH100-80GB") as platform:
        job = submitted(platform, flag, 1)
        platform.down("--keep-jobs")
        (platform.home / "fork").mkdir()
        fork = Platform(platform.home / "fork")
        copied(platform.data_dir, fork.data_dir)
        platform.up()

        with removed_at_the_end(fork):
            said = fork.up("--fork", "--listen", "127.0.0.1:0")
            assert "Headrace is up" in said
            lineages = [identity.read(one.layout) for one in (platform, fork)]
            assert lineages[0] is not None
            assert lineages[1] is not None
            assert lineages[0].lineage != lineages[1].lineage
            for secret in ("grant.key", "admin.token", "account.seed"):
                mine, theirs = (one.layout.secrets / secret for one in (platform, fork))
                assert mine.read_bytes() != theirs.read_bytes(), secret
            fork.wait(
                lambda: fork.described(job)["job"]["state"] == "cancelled", "no job goes on there"
            )
            own = fork.headrace("run", "--gpus", "1", "--", "echo", "own").stdout
            assert "own" in own
            fork.verify()
            fork.down("--delete-data")

        assert platform.described(job)["job"]["state"] == "running"
        flag.touch()
        assert platform.ended(job)["state"] == "succeeded"
        assert starts(platform, job) == 1
        platform.verify()


@pytest.mark.restore
def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    with running_platform("--nodes", "0") as platform:
        platform.down()
        where = ("up", "--detach", "--data-dir", str(platform.data_dir))
        aside = platform.home / "aside"
        for part in (platform.layout.secrets, platform.layout.postgres() / "data"):
            part.rename(aside)
            said = refused(platform, *where)
            assert "is not whole" in said
            assert str(part) in said
            if part.exists():
                shutil.rmtree(part)
            aside.rename(part)
        platform.up()


def submitted(platform: Platform, flag: Path, gpus: int) -> str:
    """A job that runs until the flag is there."""
    job = platform.headrace(
        "run", "--detach", "--gpus", str(gpus), "--", "bash", "-c", HELD.format(flag=flag)
    ).stdout.split()[0]
    platform.wait(lambda: platform.described(job)["job"]["state"] == "running", f"{job} runs")
    return job


def starts(platform: Platform, job: str) -> int:
    lines = platform.journal.read_text().splitlines()
    return len([line for line in lines if line.startswith(f"start {job} ")])


def node_of(platform: Platform, job: str) -> str:
    return next(row["node"] for row in platform.json("node", "list") if job in row.get("jobs", ()))


def refused(platform: Platform, *arguments: str) -> str:
    done = platform.headrace(*arguments, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


def status(platform: Platform) -> str:
    return platform.headrace("status", "--data-dir", str(platform.data_dir)).stdout


def copied(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", str(source), str(target)], check=False, capture_output=True)


def _apart(platform: Platform, job: str) -> str:
    nodes = platform.json("node", "list")
    return "".join(row.get("apart", "") for row in nodes if job in row.get("jobs", ()))
