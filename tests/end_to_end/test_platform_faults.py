"""The platform comes up, stays up whatever is killed, and goes down without a trace."""

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import urllib.request

import asyncpg

from headrace.bus.nats import NatsBus
from headrace.cli.exits import REFUSED
from headrace.embedded import processes
from headrace.embedded.platform import state as platform_state
from headrace.embedded.services import SERVICES
from headrace.testing.running import removed_at_the_end

from .conftest import Platform

DEADLINE_S = 60
CLI = [sys.executable, "-m", "headrace.cli"]


def replaced(platform, name, before):
    now = platform.processes().get(name)
    return now is not None and now != before


def test_whatever_is_killed_comes_back(platform):
    platform.wait_ready()
    names = ["postgres", "nats", *SERVICES, "n1", "n2"]
    before = {name: platform.kill(name) for name in names}
    for name, process in before.items():
        assert processes.wait_until(
            lambda name=name, process=process: replaced(platform, name, process),
            DEADLINE_S,
            poll_s=0.05,
        ), name
    platform.wait_ready()
    assert not [name for name, text in platform.logs().items() if "Traceback" in text]


def test_jobs_outlive_the_platform_when_asked_to(platform, tmp_path):
    platform.wait_ready()
    ends = tmp_path / "ends"
    pid_file = tmp_path / "pid"
    wait = f"until [ -e {ends} ]; do sleep 0.05; done"
    script = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; {wait}"
    with (tmp_path / "said").open("wb") as said:
        following = subprocess.Popen(
            [*CLI, "run", "--gpus", "1", "--name", "outlives", "--", "/bin/sh", "-c", script],
            env=platform.env,
            stdout=said,
            stderr=said,
        )
    assert processes.wait_until(pid_file.exists, DEADLINE_S), (tmp_path / "said").read_text()
    job = processes.identify(int(pid_file.read_text()))
    following.kill()
    following.wait()
    platform.down("--keep-jobs")
    assert processes.alive(job)
    platform.up()
    platform.wait_ready()
    assert processes.alive(job)
    ends.touch()

    def succeeded():
        rows = [row for row in platform.json("ps") if row["job"].startswith("outlives-")]
        return [row["state"] for row in rows] == ["succeeded"]

    assert processes.wait_until(succeeded, DEADLINE_S, poll_s=0.1), platform.json("ps")


def test_a_taken_port_is_refused_and_not_replaced(tmp_path):
    platform = Platform(tmp_path)
    where = ("--data-dir", str(platform.data_dir))
    with removed_at_the_end(platform), socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for options, refused in (
            (("--listen", f"127.0.0.1:{port}"), f"refused: --listen = 127.0.0.1:{port} — another"),
            (
                ("--listen", "127.0.0.1:0", "--metrics-port", str(port)),
                f"refused: --metrics-port = {port} — another program listens there",
            ),
        ):
            done = platform.headrace("up", *where, "--detach", *options, check=False)
            assert done.returncode == 120, done.stderr
            assert done.stderr.startswith(refused)
        other.close()
        said = platform.up("--listen", "127.0.0.1:0", "--metrics-port", str(port))
        address = f"http://127.0.0.1:{port}/metrics"
        assert f"numbers for Prometheus {address}" in said
        platform.kill("metrics")
        platform.wait_ready()
        token = (platform.layout.secrets / "metrics.token").read_text().strip()
        asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=DEADLINE_S) as page:
            assert page.status == 200

        def shown() -> dict:
            return platform.json("status", "--url", platform.url, "--token", platform.token)

        def leaders() -> set[str]:
            return {row["service"] for row in shown()["instances"] if row["leading"]}

        assert shown()["metrics"] == address
        platform.wait(lambda: leaders() == set(SERVICES) - {"gateway"}, "all are led again")


def test_down_ends_and_deletes_nothing_that_it_was_not_told_to(new_platform):
    platform = new_platform("--nodes", "1", "--gpus", "simulated:1xT4-16GB")
    where = ("--data-dir", str(platform.data_dir))
    started = ("run", "-d", "--gpus", "1", "--name", "outlives", "--", "sleep", "1000")
    job = platform.headrace(*started).stdout.split()[0]
    platform.wait(lambda: platform.described(job)["job"]["state"] == "running")

    asked = platform.headrace("down", *where, check=False)
    assert (asked.returncode, asked.stdout) == (1, "")
    assert f"ends 1 job on this machine's nodes: {job}; with the next `up`" in asked.stderr
    assert "nothing was done; say --yes to do it" in asked.stderr
    asked = platform.headrace("down", *where, "--delete-data", check=False)
    assert asked.returncode == 1
    assert f"deletes {platform.data_dir} for good" in asked.stderr
    assert "1 live job, default" in asked.stderr
    assert (
        platform.headrace("down", *where, "--delete-data", "--keep-jobs", check=False).returncode
        == 2
    )
    assert platform.report().ready
    assert platform.described(job)["job"]["state"] == "running"

    platform.headrace("down", *where, "--keep-jobs")
    assert platform.report().phase == "down"
    platform.up()
    attempts = platform.described(job)["attempts"]
    assert len(attempts) == 1, "kept, it runs on"
    platform.headrace("down", *where, "--yes")
    platform.headrace("down", *where)  # where nothing runs there is nothing to ask


def test_a_script_deletes_data_with_yes_alone(new_platform):
    """Also where no job lives: what is in the log is lost with it."""
    platform = new_platform("--nodes", "0")
    deleting = ("down", "--data-dir", str(platform.data_dir), "--delete-data")
    for answer in ("", "y\n", "n\n"):
        refused = platform.headrace(*deleting, check=False, stdin=answer)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "0 live jobs, default" in refused.stderr
        assert "nothing was done; say --yes to do it" in refused.stderr
    assert platform.report().ready
    platform.headrace(*deleting, "--yes")
    assert not platform.data_dir.exists()


def test_a_platform_that_other_machines_reach_keeps_its_jobs_when_it_goes_down(new_platform):
    """Its nodes outlive it."""
    platform = new_platform(
        *("--listen", "0.0.0.0:0", "--nodes", "1", "--gpus", "simulated:1xT4-16GB")
    )
    job = platform.headrace("run", "-d", "--gpus", "1", "--", "sleep", "1000").stdout.split()[0]
    platform.wait(lambda: platform.described(job)["job"]["state"] == "running")
    down = platform.headrace("down", "--data-dir", str(platform.data_dir))
    assert "on its nodes 1 job left" in down.stdout
    platform.up()
    platform.wait_ready()
    assert platform.described(job)["job"]["state"] == "running"
    assert len(platform.described(job)["attempts"]) == 1


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


def test_a_second_platform_on_one_bus_is_refused_with_the_ways_out(new_platform, own_nats):
    first = new_platform("--nodes", "0", HEADRACE_NATS_URL=own_nats.url)
    first.wait(lambda: asyncio.run(has_log(own_nats.url)), "its log is on the bus")
    (first.home / "second").mkdir()
    second = Platform(first.home / "second")
    second.env["HEADRACE_NATS_URL"] = own_nats.url
    with removed_at_the_end(second):
        up = ("up", "--detach", "--nodes", "0", "--listen", "127.0.0.1:0")
        done = second.headrace(*up, "--data-dir", str(second.data_dir), check=False)
        assert done.returncode == REFUSED, done.stdout
        assert done.stderr.startswith("refused: HEADRACE_NATS_URL — ")
        assert "keeps the log of another platform" in done.stderr
        assert "give each a server, or an account, of its own" in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    first.wait_ready()
    first.down()
    assert "Headrace is up" in first.up(), "the bus is still its own"


async def has_log(url):
    """Whether a platform keeps its log's copy on this bus."""
    bus = await NatsBus.connect(url)
    try:
        return await bus.stream_state("LOG") is not None
    finally:
        await bus.close()


def test_down_leaves_nothing_behind_and_up_finds_everything_again(new_platform):
    platform = new_platform("--nodes", "1", "--gpus", "simulated:1xT4-16GB")
    before = platform.wait_ready()
    everything = platform.processes()
    token = platform.token
    # root's is passed through by Postgres' account, on the way to its own folder
    assert stat.S_IMODE(platform.data_dir.stat().st_mode) == (0o700 if os.geteuid() else 0o711)
    private = set(platform.data_dir.iterdir()) - {platform.data_dir / "postgres"}
    assert {path.name: stat.S_IMODE(path.stat().st_mode) & 0o077 for path in private} == (
        dict.fromkeys((path.name for path in private), 0)
    )
    platform.down()
    assert not [name for name, process in everything.items() if processes.alive(process)]
    assert not processes_naming(str(platform.home))
    leaves_nothing_when_interrupted(platform)
    platform.up()
    after = platform.wait_ready()
    assert platform.token == token
    assert [row.name for row in after.processes] == [row.name for row in before.processes]


def leaves_nothing_when_interrupted(platform):
    """Ctrl-C at a start in the foreground, before it is ready."""
    command = [*CLI, "up", "--data-dir", str(platform.data_dir)]
    said = platform.home / "said"
    with said.open("wb") as output:
        starting = subprocess.Popen(command, env=platform.env, stdout=output, stderr=output)
    assert processes.wait_until(lambda: platform_state(platform.layout) is not None, DEADLINE_S)
    starting.send_signal(signal.SIGINT)
    assert starting.wait(DEADLINE_S) == 0
    assert "Traceback" not in said.read_text()
    assert not processes_naming(str(platform.home))


def processes_naming(marker):
    """The running processes that were started with anything of this platform."""
    found = []
    for pid in processes.all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                named = marker.encode() in environ.read() or marker in processes.title(pid)
        except OSError:
            continue
        process = processes.identify(pid)
        is_janitor = " janitor " in processes.title(pid)  # the fixture's own, until its end
        if named and process and processes.alive(process) and not is_janitor:
            found.append((pid, processes.title(pid)))
    return found


def test_a_platform_whose_folder_is_removed_ends(new_platform):
    platform = new_platform("--nodes", "0")
    running = platform.processes()
    assert {"supervisor", "postgres", "nats", *SERVICES} <= running.keys()
    shutil.rmtree(platform.data_dir)

    def have_ended():
        return not [name for name, process in running.items() if processes.alive(process)]

    assert processes.wait_until(have_ended, DEADLINE_S, poll_s=0.1)
