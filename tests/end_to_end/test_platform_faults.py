"""The platform comes up, stays up whatever is killed, and goes down without a trace."""

import os
import signal
import stat
import subprocess
import sys

import asyncpg
import pytest

from headrace.embedded import processes
from headrace.embedded.platform import state as platform_state
from headrace.embedded.services import SERVICES

DEADLINE_S = 60


def replaced(platform, name, before):
    now = platform.processes().get(name)
    return now is not None and now != before


@pytest.mark.parametrize("name", ["postgres", "nats", *SERVICES, "n1"])
def test_what_is_killed_comes_back(platform, name):
    platform.wait_ready()
    before = platform.kill(name)
    assert processes.wait_until(lambda: replaced(platform, name, before), DEADLINE_S, poll_s=0.05)
    platform.wait_ready()


def test_a_killed_supervisor_is_replaced_by_the_next_up(platform):
    before = platform.wait_ready()
    url, servers = before.url, {n: platform.processes()[n] for n in ("postgres", "nats")}
    platform.kill("supervisor")
    assert platform.report().phase == "unsupervised"
    platform.up("--listen", url.removeprefix("http://"))
    report = platform.wait_ready()
    assert report.url == url
    assert {name: platform.processes()[name] for name in servers} == servers, "they are adopted"


def test_a_first_job_needs_no_administration(platform):
    platform.wait_ready()
    done = platform.headrace("run", "--gpus", "1", "--name", "first", "--", "echo", "it ran")
    assert "it ran" in done.stdout


def test_up_says_that_it_is_up_already(platform):
    platform.wait_ready()
    before = platform.pids()
    assert "Headrace is up" in platform.up()
    assert platform.pids() == before


def test_status_check_tells_by_its_exit_code(platform):
    platform.wait_ready()
    where = ("--data-dir", str(platform.data_dir))
    assert platform.headrace("status", *where, "--check").returncode == 0
    process = platform.processes()["quota"]
    os.kill(process.pid, signal.SIGSTOP)
    try:
        done = platform.headrace("status", *where, "--check", check=False)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert done.returncode == 1
    assert "not ready" in done.stdout
    platform.wait_ready()


def test_down_and_up_keep_everything_and_leave_nothing_behind(new_platform):
    platform = new_platform("--nodes", "1", "--gpus", "simulated:1xT4-16GB")
    before = platform.wait_ready()
    everything = platform.processes()
    token = platform.token
    assert stat.S_IMODE(platform.data_dir.stat().st_mode) == 0o700
    platform.down()
    assert not [name for name, process in everything.items() if processes.alive(process)]
    marker = str(platform.home).encode()
    assert not processes_naming(marker)
    platform.up()
    after = platform.wait_ready()
    assert platform.token == token
    assert [row.name for row in after.processes] == [row.name for row in before.processes]
    assert {row.restarts for row in after.processes} == {0}


async def test_servers_of_ones_own_are_used_and_left_running(new_platform, database, own_nats):
    platform = new_platform(HEADRACE_PG_DSN=database, HEADRACE_NATS_URL=own_nats.url)
    names = [row.name for row in platform.wait_ready().processes]
    assert "postgres" not in names
    assert "nats" not in names
    platform.down()
    del platform.env["HEADRACE_PG_DSN"]
    done = platform.headrace("up", "--data-dir", str(platform.data_dir), check=False)
    assert done.returncode == 1
    assert "set HEADRACE_PG_DSN" in done.stderr
    assert own_nats.process
    connection = await asyncpg.connect(database)
    assert await connection.fetchval("SELECT count(*) FROM headrace.event") > 0
    await connection.close()


def test_a_start_that_is_interrupted_leaves_nothing_behind(new_platform, tmp_path):
    platform = new_platform("--nodes", "1", "--gpus", "simulated:1xT4-16GB")
    platform.down()
    command = [sys.executable, "-m", "headrace.cli", "up", "--data-dir", str(platform.data_dir)]
    for phase in ("starting", "ready"):
        with (tmp_path / "said").open("wb") as said:
            starting = subprocess.Popen(command, env=platform.env, stdout=said, stderr=said)
        assert processes.wait_until(
            lambda phase=phase: (now := platform_state(platform.layout)) and now.phase == phase,
            DEADLINE_S,
        )
        starting.send_signal(signal.SIGINT)
        assert starting.wait(DEADLINE_S) == 0
        assert "Traceback" not in (tmp_path / "said").read_text()
        assert not processes_naming(str(platform.home).encode())
    assert "Headrace is up" in (tmp_path / "said").read_text()


def processes_naming(marker):
    """The running processes that were started with anything of this platform."""
    found = []
    for pid in processes.all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                named = marker in environ.read() or marker.decode() in processes.title(pid)
        except OSError:
            continue
        process = processes.identify(pid)
        if named and process and processes.alive(process):
            found.append((pid, processes.title(pid)))
    return found
