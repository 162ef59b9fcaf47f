"""What prepares a worker: once on a node for all that are prepared alike."""

import asyncio
import os
import subprocess
import sys

import pytest
from tests.node_agent.placement_twin import until
from tests.node_agent.workplaces.jobs import kept, place, ran, shell

from headrace.node_agent.workplaces import setups

SHELL = ("/bin/sh", "-euc")
IN_USE = """\
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("on", flush=True)
sys.stdin.read()
"""


def setup(script):
    return (*SHELL, script)


async def test_a_setup_runs_once_and_the_next_job_finds_what_it_wrote(node, tmp_path):
    script = setup(f"echo ran >> {tmp_path}/runs; mkdir built; echo lib > built/lib; echo said")
    for job in ("one", "two"):
        said, end = await ran(
            node, job, *shell("cat built/lib; echo mine > built/lib"), setup=script
        )
        assert (said.splitlines()[-1], end.exit_code) == ("lib", 0)
    assert (tmp_path / "runs").read_text() == "ran\n"


async def test_jobs_that_come_at_once_wait_for_one_setup(node, tmp_path):
    script = setup(f"echo ran >> {tmp_path}/runs; sleep 0.3; echo 1 > made")
    jobs = [ran(node, f"job-{n}", "cat", "made", setup=script) for n in range(3)]
    assert [end.exit_code for _, end in await asyncio.gather(*jobs)] == [0, 0, 0]
    assert (tmp_path / "runs").read_text() == "ran\n"


async def test_an_environment_in_the_working_directory_is_each_attempts_own(node):
    script = setup("python3 -m venv --without-pip .venv")
    show = '. .venv/bin/activate; echo "$VIRTUAL_ENV"; pwd'
    jobs = [ran(node, f"job-{n}", *shell(show), setup=script) for n in range(3)]
    for said, end in await asyncio.gather(*jobs):
        prefix, work = said.split()
        assert (end.exit_code, prefix) == (0, f"{work}/.venv")


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("pip install -e .", True),
        ("set -e\npip install numpy", False),
        ("pip install -q --editable '.[dev]'", True),
        ("python -m venv .venv && .venv/bin/pip install x", True),
        ("pip install -r requirements-venv.txt; echo -e done", False),
        ("uv pip install numpy", False),
        ("uv sync", True),
    ],
)
def test_what_names_the_folder_it_is_made_in_is_told(text, is_so):
    assert setups.is_of_one_folder(("/bin/bash", "-e", "-o", "pipefail", "-c", text)) is is_so


async def test_what_is_installed_lands_in_an_environment_of_the_setups_own(node):
    show = "import sys; print(sys.prefix)"
    said, _ = await ran(node, "one", "python3", "-c", show, setup=setup("command -v pip"))
    pip, prefix = said.split()
    assert prefix.startswith(f"{node.dir}/bundles/vision/setups/")
    assert pip == f"{prefix}/bin/pip"
    assert not prefix.startswith(sys.prefix)


async def test_a_setup_runs_again_when_a_file_it_names_changes_and_not_for_others(
    world, node, folder, tmp_path
):
    script = setup(f"cat requirements.txt >> {tmp_path}/runs")
    (folder / "requirements.txt").write_text("numpy\n")
    await place(world, "one", "two", "three")
    await ran(node, "one", "true", setup=script, workdir=kept(world, folder))
    (folder / "a.py").write_text("changed")
    said, _ = await ran(node, "two", "cat", "a.py", setup=script, workdir=kept(world, folder))
    assert (said, (tmp_path / "runs").read_text()) == ("changed", "numpy\n")
    (folder / "requirements.txt").write_text("torch\n")
    await ran(node, "three", "true", setup=script, workdir=kept(world, folder))
    assert (tmp_path / "runs").read_text() == "numpy\ntorch\n"


async def test_a_setup_that_names_a_script_runs_again_whenever_anything_changes(
    world, node, folder, tmp_path
):
    script = setup(f"./run.sh >> {tmp_path}/runs")
    await place(world, "one", "two")
    for job in ("one", "two"):
        (folder / "a.py").write_text(job)
        await ran(node, job, "true", setup=script, workdir=kept(world, folder))
    assert (tmp_path / "runs").read_text() == "ran ./run.sh\n" * 2


async def test_a_setup_that_fails_is_the_reason_with_its_last_lines_and_runs_again(node, tmp_path):
    script = setup(f"echo ran >> {tmp_path}/runs; echo one; echo no such package; exit 4")
    for job in ("one", "two"):
        _, end = await ran(node, job, "true", setup=script)
        assert (end.reason, end.exit_code) == ("setup", 4)
        assert end.message == "exit code 4: one | no such package"
    assert (tmp_path / "runs").read_text() == "ran\nran\n"


async def test_a_setup_that_never_ends_is_ended_and_nobody_waits_for_it(node):
    script = setup('if [ -z "${QUICK:-}" ]; then exec sleep 600; fi')
    key = await node.placement.want("slow", "true", setup=script, max_duration_s=1)
    end = await node.placement.ended(key)
    assert (end.reason, end.exit_code) == ("stopped", 124)
    assert end.message.startswith("setup: max_duration reached")
    _, end = await ran(node, "quick", "true", setup=script, env={"QUICK": "1"})
    assert end.exit_code == 0


async def test_a_job_that_is_cancelled_while_another_prepares_ends_at_once(node, tmp_path):
    script = setup(f"echo ran >> {tmp_path}/runs; exec sleep 600")
    first = await node.placement.want("first", "true", setup=script)
    await until((tmp_path / "runs").exists, "the setup")
    second = await node.placement.want("second", "true", setup=script)
    await until(lambda: node.shim(second), "the second's shim")
    for key in (second, first):
        await node.placement.stop(key)
        assert (await node.placement.ended(key)).reason == "stopped"


@pytest.mark.parametrize("version", ["3.8", "3.19"])
async def test_an_interpreter_that_is_not_here_is_the_reason(node, version, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    _, end = await ran(node, "one", "true", python=version)
    assert end.message.startswith(f"cannot start: setup: python {version} is not on this node")


async def test_the_interpreter_that_is_asked_for_runs_the_job_without_the_nodes_packages(node):
    version = "{}.{}".format(*sys.version_info[:2])
    show = "import sys, importlib.util as u; print(sys.version_info[:2], u.find_spec('pytest'))"
    said, _ = await ran(node, "one", "python", "-c", show, python=version)
    assert said == f"{sys.version_info[:2]} None\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="accounts take root")
async def test_every_account_has_setups_of_its_own_that_nobody_else_can_change(shared, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")  # an interpreter for everybody
    script = setup("id -un > made; touch $VIRTUAL_ENV/mine")
    prefixes = {}
    for job, user, account in (
        ("a", "bob", "nobody"),
        ("b", "dan", "daemon"),
        ("c", "bob", "nobody"),
    ):
        show = "cat made; stat -c %U $VIRTUAL_ENV/mine; echo $VIRTUAL_ENV"
        said, end = await ran(shared, job, *shell(show), setup=script, user=user)
        assert (said.split()[:2], end.exit_code) == ([account, account], 0)
        prefixes[job] = said.split()[2]
    assert prefixes["a"] == prefixes["c"] != prefixes["b"]
    spoil = f"touch {prefixes['a']}/spoiled || echo kept out"
    said, _ = await ran(shared, "d", *shell(spoil), user="dan")
    assert said.endswith("kept out\n")


def test_beyond_the_cap_the_setups_used_longest_ago_go(tmp_path):
    for number in range(setups.SETUPS_MAX + 3):
        (tmp_path / f"s{number}").mkdir()
        lock = tmp_path / f"s{number}.lock"
        lock.touch()
        os.utime(lock, (number, number))
    setups.tidy(tmp_path)
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {f"s{number}" for number in range(3, setups.SETUPS_MAX + 3)}
    setups.tidy(tmp_path, before_s=10.0)
    assert not (tmp_path / "s9").exists()
    assert (tmp_path / "s10").exists()


def test_the_setups_used_last_are_kept_and_those_in_use(tmp_path):
    for number in range(setups.SETUPS_MAX + 3):
        (tmp_path / f"s{number:02}").mkdir()
        lock = tmp_path / f"s{number:02}.lock"
        lock.touch()
        os.utime(lock, (number, number))
    with subprocess.Popen(
        [sys.executable, "-c", IN_USE, str(tmp_path / "s00.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as user:
        assert user.stdout.readline() == b"on\n"
        setups.tidy(tmp_path)
        user.stdin.close()

    left = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert left == ["s00", *(f"s{number:02}" for number in range(3, setups.SETUPS_MAX + 3))]
