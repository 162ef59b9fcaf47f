"""NATS under our supervision: started, adopted, killed, moved."""

import os
import signal
import socket
import stat
import subprocess
import sys

import nats
import pytest

from headrace.embedded import EmbeddedError, processes
from headrace.embedded.nats import Nats
from headrace.testing.ports import free_port


@pytest.fixture
def server(server_folder, tmp_path):
    found = Nats(tmp_path / "nats")
    yield found
    found.stop()


async def test_it_keeps_its_streams_over_a_kill(server):
    first = server.start()
    client = await nats.connect(server.url)
    await client.jetstream(timeout=60).add_stream(name="S", subjects=["s.>"])
    await client.jetstream(timeout=60).publish("s.a", b"kept")
    await client.close()
    os.kill(first.pid, signal.SIGKILL)
    assert processes.wait_exit(first, 60)
    url = server.url
    assert server.start().pid != first.pid
    assert server.url == url
    client = await nats.connect(url)
    assert (await client.jetstream(timeout=60).get_msg("S", 1)).data == b"kept"
    await client.close()


async def test_wiped_it_comes_back_empty_at_the_same_address(own_nats):
    before = own_nats.url
    client = await nats.connect(before)
    await client.jetstream(timeout=60).add_stream(name="S", subjects=["s.>"])
    await client.close()
    own_nats.wipe()
    assert own_nats.url == before
    client = await nats.connect(before)
    assert await client.jetstream(timeout=60).streams_info() == []
    await client.close()


def test_the_server_of_a_killed_supervisor_is_adopted(server):
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from headrace.embedded.nats import Nats\n"
        "print(Nats(Path(sys.argv[1])).start().pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(server.base)], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL
    assert server.start().pid == int(done.stdout)


def test_a_changed_configuration_replaces_the_running_server(server):
    first = server.start()
    server.stop()
    url = server.url
    server.start()
    changed = Nats(server.base, authentication="authorization { token: t }")
    server.stop()
    second = changed.start()
    assert second.pid != first.pid
    assert changed.url == url
    changed.stop()


def test_a_taken_port_makes_it_move(server):
    server.start()
    taken = int(server.url.rpartition(":")[2])
    server.stop()
    with socket.create_server(("127.0.0.1", taken)):
        server.start()
        assert int(server.url.rpartition(":")[2]) != taken
        assert server.ready()


def test_a_chosen_port_is_refused_when_it_is_taken_and_never_replaced(server_folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        server = Nats(tmp_path / "nats", port=taken)
        with pytest.raises(EmbeddedError, match=f"refused: --bus-port = {taken} — another program"):
            server.start()
        assert server.known_port == 0
    server.start()
    assert server.url == f"nats://127.0.0.1:{taken}"
    server.stop()
    with (
        socket.create_server(("127.0.0.1", taken)),
        pytest.raises(EmbeddedError, match="--bus-port"),
    ):
        server.start()


def test_another_chosen_port_moves_the_running_server(server):
    server.start()
    port = free_port()
    server.stop()
    moved = Nats(server.base, port=port)
    moved.start()
    assert moved.url == f"nats://127.0.0.1:{port}"
    moved.stop()


def test_two_supervisors_never_keep_the_same_server(server):
    server.start()
    with pytest.raises(EmbeddedError, match="another process keeps"):
        Nats(server.base).start()


def test_its_folders_are_ours_alone(server):
    server.start()
    for path, mode in ((server.base, 0o700), (server.base / "store", 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE((server.base / "server.conf").stat().st_mode) == 0o600


def test_a_start_that_cannot_work_says_why(tmp_path):
    with pytest.raises(EmbeddedError, match=r"NATS did not start: .*Parse error"):
        Nats(tmp_path / "nats", authentication="banana {").start()
