"""Postgres under our supervision: started, adopted, killed, refused."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from headrace.embedded import EmbeddedError, processes
from headrace.embedded.postgres import SUPERUSER, Postgres

DEADLINE_S = 60


async def test_fsync_checksums_and_scram_are_on(postgres):
    postgres.start()
    connection = await asyncpg.connect(postgres.dsn())
    try:
        for setting, value in {
            "fsync": "on",
            "full_page_writes": "on",
            "synchronous_commit": "on",
            "data_checksums": "on",
            "password_encryption": "scram-sha-256",
            "listen_addresses": "",
            "server_encoding": "UTF8",
            "TimeZone": "UTC",
        }.items():
            assert await connection.fetchval(f"SHOW {setting}") == value, setting
    finally:
        await connection.close()


async def test_nobody_gets_in_without_the_password(postgres):
    postgres.start()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(postgres.dsn(user=SUPERUSER, password="guess"))


def test_it_never_runs_as_root_and_its_folders_are_its_own(postgres):
    process = postgres.start()
    uid = Path(f"/proc/{process.pid}").stat().st_uid
    assert uid != 0
    for folder in (postgres.base, postgres.data, postgres.socket):
        found = folder.stat()
        assert stat.S_IMODE(found.st_mode) == 0o700, folder
        assert found.st_uid == uid
    assert stat.S_IMODE((postgres.base / "password").stat().st_mode) == 0o600


async def test_what_was_committed_survives_kill_9_of_the_postmaster(postgres):
    first = postgres.start()
    connection = await asyncpg.connect(postgres.dsn())
    await connection.execute("CREATE TABLE kept AS SELECT 7 AS x")
    os.kill(first.pid, signal.SIGKILL)
    assert processes.wait_until(lambda: not processes.alive(first), DEADLINE_S)
    second = postgres.start()
    assert second.pid != first.pid
    connection.terminate()
    connection = await asyncpg.connect(postgres.dsn())
    assert await connection.fetchval("SELECT x FROM kept") == 7
    await connection.execute("DROP TABLE kept")
    await connection.close()


async def test_a_killed_backend_leaves_the_server_up(postgres):
    process = postgres.start()
    connection = await asyncpg.connect(postgres.dsn())
    os.kill(connection.get_server_pid(), signal.SIGKILL)
    assert processes.wait_until(postgres.ready, DEADLINE_S)
    assert postgres.running() == process
    connection.terminate()


@pytest.mark.parametrize("pause_s", [0.0, 0.02, 0.04])
async def test_a_stop_in_the_middle_of_recovery_ends(cluster_base, pause_s):
    server = Postgres(cluster_base)
    process = server.start()
    connection = await asyncpg.connect(server.dsn())
    os.kill(connection.get_server_pid(), signal.SIGKILL)
    processes.wait_exit(process, pause_s)
    connection.terminate()
    server.stop()
    assert not processes.alive(process)
    server.start()
    server.stop()


def test_the_server_of_a_killed_supervisor_is_adopted(cluster_base, postgres):
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from headrace.embedded.postgres import Postgres\n"
        "print(Postgres(Path(sys.argv[1])).start().pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(cluster_base)], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL
    assert postgres.start().pid == int(done.stdout)


def test_two_supervisors_never_keep_the_same_cluster(cluster_base, postgres):
    postgres.start()
    with pytest.raises(EmbeddedError, match="another process keeps"):
        Postgres(cluster_base).start()


def test_a_stale_pid_file_that_names_a_stranger_does_not_keep_it_down(postgres):
    postgres.start()
    postgres.stop()
    lines = [str(os.getpid()), str(postgres.data), "1", "5432", str(postgres.socket), "", "1 1"]
    (postgres.data / "postmaster.pid").write_text("\n".join([*lines, "ready"]) + "\n")
    assert postgres.running() is None
    assert postgres.start().pid != os.getpid()


def test_a_start_that_cannot_work_says_why(postgres):
    postgres.start()
    postgres.stop()
    custom = postgres.data / "custom.conf"
    before = custom.read_text()
    custom.write_text("shared_buffers = 'banana'\n")
    try:
        with pytest.raises(EmbeddedError, match=r"Postgres did not start: .*FATAL"):
            postgres.start()
    finally:
        custom.write_text(before)
    postgres.start()


def test_a_half_made_cluster_is_made_anew(server_folder):
    base = server_folder / "half"
    server = Postgres(base)
    base.mkdir(mode=0o700)
    (base / "data.new").mkdir()
    (base / "data.new" / "PG_VERSION").write_text("18\n")
    (base / "data").mkdir()
    try:
        server.start()
        assert server.ready()
    finally:
        server.stop()


def test_a_long_path_gets_its_socket_elsewhere(server_folder):
    server = Postgres(server_folder / ("long" * 30))
    try:
        server.start()
        assert len(str(server.socket)) < 90
        assert stat.S_IMODE(server.socket.stat().st_mode) == 0o700
    finally:
        server.stop()
    assert not server.socket.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")
def test_folders_that_its_user_cannot_enter_are_refused_and_left_as_they_are(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match="cannot get into"):
        Postgres(closed / "pg").start()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
