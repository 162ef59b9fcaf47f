"""Folders that travelled, from a real gateway to a real agent's workers."""

import asyncio
import os
import shutil
import sys
import time

import pytest
from tests.gateway.histories import project_made
from tests.node_agent.placement_twin import until
from tests.node_agent.workplaces.jobs import kept, place, ran, spoil

from headrace.bundles.manifest import name_of
from headrace.events.access import ProjectErased
from headrace.gateway import node_files
from headrace.node_agent.workplaces import preparing, repositories

LIST = [sys.executable, "-c", "import os; print(sorted(os.listdir('.')), open('a.py').read())"]
SPOIL = ["/bin/sh", "-c", "echo spoilt > a.py; rm -r src; cat a.py"]


async def test_a_worker_finds_its_folder_and_spoils_nobody_elses(world, node, folder):
    workdir = kept(world, folder)
    await place(world, "one", "two", "three")
    said, end = await ran(node, "one", *LIST, workdir=workdir)
    assert (said, end.exit_code) == ("['a.py', 'run.sh', 'src'] one\n", 0)
    assert (await ran(node, "two", *SPOIL, workdir=workdir))[0] == "spoilt\n"
    said, _ = await ran(node, "three", "./run.sh", workdir=workdir)
    assert said == "ran ./run.sh\n"


async def test_the_next_worker_takes_a_copy_that_was_made_ahead(world, node, folder):
    workdir = kept(world, folder)
    await place(world, "one", "two")
    await ran(node, "one", *LIST, workdir=workdir)
    spares = node.dir / "bundles" / "vision" / "spares"
    await until(lambda: [s for s in spares.glob("*") if s.name[0] != "."], "a spare")
    shutil.rmtree(world.gateway.keeper.of("vision").root)  # and nobody is asked any more
    (spare,) = spares.iterdir()
    inode = (spare / "a.py").stat().st_ino
    command = [sys.executable, "-c", "import os; print(os.stat('a.py').st_ino)"]
    said, _ = await ran(node, "two", *command, workdir=workdir)
    assert int(said) == inode


async def test_many_at_once_fetch_once_and_each_has_its_own(world, node, folder):
    workdir = kept(world, folder)
    jobs = [f"job-{n}" for n in range(4)]
    await place(world, *jobs)
    results = await asyncio.gather(*(ran(node, job, *SPOIL, workdir=workdir) for job in jobs))
    assert [(said, end.exit_code) for said, end in results] == [("spoilt\n", 0)] * 4


async def test_a_folder_that_is_not_kept_any_more_is_the_reason(world, node, folder):
    workdir = kept(world, folder)
    await place(world, "one")
    shutil.rmtree(world.gateway.keeper.of("vision").root)
    _, end = await ran(node, "one", *LIST, workdir=workdir)
    assert (end.reason, end.exit_code) == ("start-failed", 126)
    assert end.message.startswith("cannot start: workdir: the platform does not keep folder")
    assert "submit the job again" in end.message


async def test_a_file_that_is_damaged_where_it_is_kept_is_noticed_and_thrown_away(
    world, node, folder
):
    workdir = kept(world, folder)
    await place(world, "one", "two")
    objects = world.gateway.keeper.of("vision")
    spoil(objects.path_of(name_of(b"one")))
    _, end = await ran(node, "one", *LIST, workdir=workdir)
    assert end.message.startswith("cannot start: workdir: a file came damaged from the platform")
    assert not objects.has_tree(workdir.removeprefix("sha256:"))
    kept(world, folder)
    assert (await ran(node, "two", *LIST, workdir=workdir))[1].exit_code == 0


async def test_a_file_that_was_damaged_on_the_node_is_fetched_anew(world, node, folder):
    workdir = kept(world, folder)
    await place(world, "one", "two")
    await ran(node, "one", *LIST, workdir=workdir)
    project = node.dir / "bundles" / "vision"
    await until(lambda: [s for s in (project / "spares").glob("*") if s.name[0] != "."], "a spare")
    shutil.rmtree(project / "spares")
    digest = name_of(b"one")
    spoil(project / "objects" / digest[:2] / digest[2:])
    said, _ = await ran(node, "two", *LIST, workdir=workdir)
    assert said.endswith("one\n")


async def test_no_node_gets_files_of_a_job_that_is_not_placed_on_it(
    world, node, folder, monkeypatch
):
    monkeypatch.setattr(node_files, "BEHIND_S_MAX", 0.2)
    workdir = kept(world, folder, "ads")
    await place(world, "mine")
    _, end = await ran(node, "not-mine", *LIST, workdir=workdir)
    assert "job not-mine is not placed on n1" in end.message
    _, end = await ran(node, "mine", *LIST, workdir=workdir)  # it is vision's, the folder ads'
    assert "does not keep folder" in end.message


async def test_a_platform_that_does_not_answer_is_the_reason_after_a_while(world, node, folder):
    workdir = kept(world, folder)
    await place(world, "one")
    await world.gateway.node_files.close()
    await node.kill_agent()
    node.silence_s_max = 0.1
    await node.start()
    _, end = await ran(node, "one", *LIST, workdir=workdir)
    assert "the platform did not answer for 0 s when asked for files" in end.message


async def test_a_job_that_is_cancelled_while_its_folder_is_fetched_never_starts(
    world, node, folder
):
    workdir = kept(world, folder)
    await place(world, "one")
    await world.gateway.node_files.close()
    key = await node.placement.want("one", *LIST, workdir=workdir)
    await node.placement.stop(key)
    end = await node.placement.ended(key)
    assert (end.reason, end.message) == ("stopped", "stopped before it started: cancelled")


async def test_a_commit_is_checked_out_on_the_node_and_fetched_once(node, repository):
    url, (first, second) = repository
    show = ["/bin/sh", "-c", "cat a.py; echo; git rev-parse HEAD"]
    said, _ = await ran(node, "one", *show, workdir=f"{url}@{first}")
    assert said == f"one\n{first}\n"
    said, _ = await ran(node, "two", *show, workdir=f"{url}@{second[:7]}")
    assert said == f"two\n{second}\n"
    shutil.rmtree(url.removeprefix("git+file://"))
    said, _ = await ran(node, "three", *show, workdir=f"{url}@{first[:9]}")
    assert said == f"one\n{first}\n"


NO_COMMIT = "0123456789abcdef0123456789abcdef01234567"
UNREACHABLE = [
    (f"git+https://127.0.0.1:1/repo@{NO_COMMIT}", "unable to access 'https://127.0.0.1:1/repo/'"),
    (f"git+file:///nowhere@{NO_COMMIT}", "does not appear to be a git repository"),
    (f"git+ssh://127.0.0.1/repo@{NO_COMMIT}", "over https, file, not ssh"),
]


@pytest.mark.parametrize(("workdir", "said"), UNREACHABLE)
async def test_a_repository_that_cannot_be_had_is_the_reason(node, workdir, said):
    _, end = await ran(node, "one", "true", workdir=workdir)
    assert end.reason == "start-failed"
    assert said in end.message
    assert "\n" not in end.message


async def test_a_commit_that_is_not_there_is_the_reason(node, repository):
    url, _ = repository
    _, end = await ran(node, "one", "true", workdir=f"{url}@{NO_COMMIT}")
    assert end.message.endswith(f"has no commit {NO_COMMIT} in its branches and tags")


async def test_a_node_forgets_what_the_platform_has_forgotten(world, node, folder, monkeypatch):
    monkeypatch.setattr(preparing, "FORGET_EVERY_S", 0.05)
    workdir = kept(world, folder)
    await world.append(project_made("vision"))
    await place(world, "one")
    script = ("/bin/sh", "-c", "echo secret > made")
    await ran(node, "one", *LIST, workdir=workdir, setup=script)
    project = node.dir / "bundles" / "vision"
    await until(lambda: [s for s in (project / "spares").glob("*") if s.name[0] != "."], "a spare")
    await node.kill_agent()
    await node.start()  # looks at once
    world.store._clock = lambda: 4 * 10**15  # the log's clock is far in the past here
    await world.append(ProjectErased(project="vision"))
    await world.gateway.keeper.erase_logged({"vision": 4 * 10**15})

    def left():
        return [name for _, _, names in os.walk(project) for name in names]

    await until(lambda: not left() or left() == [".lock"], f"nothing left of {left()[:9]}")


@pytest.mark.parametrize(
    ("bytes_max", "kept_max", "stay"),
    [(1_000, 9, "abcd"), (1_000, 3, "abc"), (250, 9, "ab"), (0, 0, "a")],  # a may be in use
)
def test_the_repositories_used_longest_ago_go_first(tmp_path, bytes_max, kept_max, stay):
    for name, ago_s in zip("abcd", (60, 10_000, 20_000, 30_000), strict=True):
        (tmp_path / name / "objects").mkdir(parents=True)
        (tmp_path / name / "objects" / "pack").write_bytes(bytes(100))
        os.utime(tmp_path / name, (0, time.time() - ago_s))

    repositories.tidy(tmp_path, bytes_max, kept_max=kept_max)

    assert sorted(os.listdir(tmp_path)) == list(stay)
