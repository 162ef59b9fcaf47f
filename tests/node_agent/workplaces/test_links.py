"""Jobs that put links, pipes and other traps where the node's root will act."""

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.node_agent.placement_twin import until
from tests.node_agent.workplaces.jobs import left, place, ran, shell

from headrace.events.asked import Mount

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="accounts take root")


@pytest.fixture
def victim():
    """A folder of root's with a file, both out of reach for jobs' accounts."""
    with tempfile.TemporaryDirectory(prefix="headrace-victim-") as folder:
        (Path(folder) / "secret").write_text("only root reads this")
        os.chmod(Path(folder) / "secret", 0o600)
        yield Path(folder)


def commit_links(repository, **links):
    """A commit with these links in it."""
    address, _ = repository
    folder = Path(address.removeprefix("git+file://"))
    for name, target in links.items():
        (folder / name).symlink_to(target)
    git = f"git -C {folder} -c user.name=ada -c user.email=ada@example.org"
    script = f"{git} add -A; {git} commit -qm links; {git} rev-parse HEAD"
    done = subprocess.run(shell(script), check=True, capture_output=True, text=True)
    return f"{address}@{done.stdout.strip()}"


@pytest.mark.parametrize("path", ["way/in", "way/deep/in", "here/way/in"])
async def test_what_a_job_left_is_not_moved_through_a_link_of_the_code(
    world, shared, repository, victim, path
):
    await left(world, shared, "features", "mkdir f; echo 1 > f/a", outputs=("f",))
    workdir = commit_links(repository, way=victim, here=".")
    mounts = (Mount(job="features", path=path, read_only=True),)
    await place(world, "train")
    _, end = await ran(shared, "train", "true", workdir=workdir, mounts=mounts)
    assert (end.reason, os.listdir(victim)) == ("start-failed", ["secret"])
    assert end.message == f"cannot start: work/{path.split('/')[0]}: a link is on the way"


async def test_a_volume_is_not_linked_through_a_link_of_the_code(shared, repository, victim):
    workdir = commit_links(repository, way=victim)
    mounts = (Mount(volume="sets", path="way/in"),)
    of = {"mounts": mounts, "volumes": {"sets": "/usr"}, "workdir": workdir}
    _, end = await ran(shared, "train", "true", **of)
    assert (end.reason, os.listdir(victim)) == ("start-failed", ["secret"])


@pytest.mark.parametrize("name", ["done", "begun", "changes"])
async def test_a_setup_that_links_the_nodes_marks_elsewhere_empties_no_file(
    shared, victim, name, monkeypatch
):
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")  # an interpreter for everybody
    script = f'cd "$VIRTUAL_ENV/.."; ln -sfn {victim}/secret "{name}" || true'
    _, end = await ran(shared, "one", "true", setup=("/bin/sh", "-c", script))
    assert (victim / "secret").read_text() == "only root reads this"
    assert end.exit_code == 0


@pytest.fixture
def swapping(monkeypatch):
    """Has a folder be a link from the moment on at which somebody looked what it is."""

    def swap(folder, to):
        stat_of = os.stat

        def looked(path, **how):
            about = stat_of(path, **how)
            at = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)
            if at.rpartition("/")[2] == folder.name:
                with contextlib.suppress(OSError):
                    os.rename(folder, folder.with_name("aside"))
                    os.symlink(to, folder)
            return about

        monkeypatch.setattr(os, "stat", looked)
        monkeypatch.setattr(
            os, "lstat", lambda path, **how: looked(path, follow_symlinks=False, **how)
        )
        monkeypatch.setattr(os, "fstat", looked)

    return swap


async def test_a_folder_that_becomes_a_link_while_it_is_walked_gives_nothing_away(
    world, shared, victim, swapping, tmp_path
):
    await place(world, "train")
    script = "mkdir -p model/swapped; echo 1 > model/swapped/secret; echo on; exec sleep 600"
    key = await shared.placement.want("train", *shell(script), outputs=("model",))
    await until((shared.folder(key) / "work/model/swapped/secret").exists, "its file")
    swapping(shared.folder(key) / "work" / "model" / "swapped", victim)
    await shared.placement.stop(key)
    end = await shared.placement.ended(key)
    assert end.outputs == ""
    said = "outputs cannot be kept: model/swapped cannot be read: a link is on the way"
    assert end.message.endswith(said)


async def test_what_the_jobs_account_may_not_read_is_not_read_for_it(world, shared, victim):
    """As with a hard link, where the kernel lets everybody make one to every file."""
    await place(world, "train")
    script = "mkdir -m 777 model; echo on; exec sleep 600"
    key = await shared.placement.want("train", *shell(script), outputs=("model",))
    model = shared.folder(key) / "work" / "model"
    await until(model.exists, "its folder")
    os.link(victim / "secret", model / "x")
    await shared.placement.stop(key)
    end = await shared.placement.ended(key)
    assert end.outputs == ""
    assert end.message.endswith("model/x cannot be read: Permission denied")
