"""Ways into a running worker: programs beside it, its output, its ports."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from tests.node_agent.placement_twin import DEADLINE_S, NODE, until
from tests.node_agent.rig import Node

from headrace.bus import subjects
from headrace.bus.memory import MemoryBus
from headrace.bus.sessions import Enter, Entered, Frame, Wire, size_frame
from headrace.node_agent.machine import AttemptKey

SLEEPS = ("/bin/sh", "-c", "echo before; sleep 60 & wait")


class Refused(Exception):
    """The agent would not let us in."""


@contextlib.asynccontextmanager
async def session(node: Node, key: AttemptKey, way: str, **of: object) -> AsyncIterator[Wire]:
    bus = MemoryBus(node.broker, f"visitor-{time.monotonic_ns()}")
    name = f"s{time.monotonic_ns()}"
    wire = Wire(
        bus,
        send_to=subjects.session_down(NODE, name),
        hear_from=subjects.session_up(NODE, name),
    )
    await wire.open()
    enter = Enter(session=name, way=way, job=key.job, attempt=key.attempt, rank=key.rank, **of)
    subject = subjects.agent_down(NODE, "session")
    answer = await bus.request(subject, msgspec.json.encode(enter), timeout_s=DEADLINE_S)
    refused = msgspec.json.decode(answer.data, type=Entered).refused
    try:
        if refused:
            raise Refused(refused)
        yield wire
    finally:
        await wire.close()
        await bus.close()


async def heard(wire: Wire, enough: Callable[[dict[str, bytes]], bool]) -> dict[str, bytes]:
    """What came, by kind, until it is enough or the end."""
    said: dict[str, bytes] = {"data": b"", "error": b""}
    while not enough(said):
        frame = await wire.receive()
        if frame.kind == "exit":
            return {**said, "exit": str(frame.value).encode(), "message": frame.data}
        said[frame.kind] += frame.data
    return said


def to_the_end(_said: dict[str, bytes]) -> bool:
    return False


async def test_a_program_runs_with_the_workers_environment_and_tells_its_exit_code(
    node: Node,
) -> None:
    key = await node.placement.want("train-1", *SLEEPS, env={"LR": "0.1"})
    await node.placement.started(key)

    script = 'echo "$LR $HEADRACE_JOB_ID"; cat; echo wrong >&2; exit 7'
    async with session(node, key, "exec", command=("/bin/sh", "-c", script)) as wire:
        await wire.send(Frame("data", b"typed\n"))
        await wire.send(Frame("eof"))
        said = await heard(wire, to_the_end)

    assert said["data"] == b"0.1 train-1\ntyped\n"
    assert (said["error"], said["exit"]) == (b"wrong\n", b"7")


async def test_a_program_on_a_terminal_has_its_size_and_hears_ctrl_c(node: Node) -> None:
    key = await node.placement.want("train-1", *SLEEPS)
    await node.placement.started(key)

    script = "trap 'stty size; exit 3' INT; tty; stty size; while :; do sleep 0.05; done"
    asked = {"command": ("/bin/sh", "-c", script), "rows": 24, "columns": 80}
    async with session(node, key, "exec", **asked) as wire:
        said = await heard(wire, lambda s: b"24 80" in s["data"])
        await wire.send(size_frame(50, 132))
        await wire.send(Frame("data", b"\x03"))
        rest = await heard(wire, to_the_end)

    assert b"/dev/pts/" in said["data"]
    assert b"50 132" in rest["data"]
    assert rest["exit"] == b"3"


async def test_a_terminal_is_one_of_the_jobs_own_and_the_accounts(node: Node) -> None:
    key = await node.placement.want("train-1", *SLEEPS)
    await node.placement.started(key)

    script = "tty; stat -c 'of %u' $(tty); id -u; ls /dev/pts"
    asked = {"command": ("/bin/sh", "-c", script), "rows": 24, "columns": 80}
    async with session(node, key, "exec", **asked) as wire:
        said = await heard(wire, to_the_end)

    terminal, of, account, *others = said["data"].decode().split("\r\n")
    assert of == f"of {account}"
    if node.views is not None:
        assert (terminal, others) == ("/dev/pts/0", ["0  ptmx", ""])


async def test_a_terminal_that_cannot_be_opened_says_why(node: Node) -> None:
    if node.views is None:
        pytest.skip("the terminals of this node's jobs are the machine's")
    hold = "import os, time\ntry:\n  while True: os.open('/dev/ptmx', os.O_RDWR)\nexcept OSError: print('all', flush=True); time.sleep(1000)"
    key = await node.placement.want("train-1", "python3", "-c", hold)
    await node.placement.started(key)
    assert await wrote(node, key) == b"all\n"

    asked = {"command": ("true",), "rows": 24, "columns": 80}
    async with session(node, key, "exec", **asked) as wire:
        said = await heard(wire, to_the_end)

    assert (said["exit"], said["data"]) == (b"126", b"")
    assert b"No space left on device" in said["message"]


async def test_more_output_than_a_window_arrives_whole(node: Node) -> None:
    key = await node.placement.want("train-1", *SLEEPS)
    await node.placement.started(key)

    command = ("/bin/sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x")
    async with session(node, key, "exec", command=command) as wire:
        said = await heard(wire, to_the_end)

    assert said["data"] == b"x" * 5_000_000


async def test_who_leaves_ends_the_program_and_not_the_job(node: Node) -> None:
    key = await node.placement.want("train-1", *SLEEPS)
    await node.placement.started(key)
    marker = node.intent(key).marker
    before = set(node.left_of(marker))

    async with session(node, key, "exec", command=("/bin/sh", "-c", "echo in; sleep 60")) as wire:
        await heard(wire, lambda s: b"in" in s["data"])
        assert set(node.left_of(marker)) > before

    await until(lambda: set(node.left_of(marker)) == before, "nothing is left of the program")
    assert node.placement.end_of(key) is None


async def test_the_end_of_the_job_ends_what_runs_beside_it(node: Node) -> None:
    key = await node.placement.want("train-1", *SLEEPS)
    await node.placement.started(key)
    marker = node.intent(key).marker

    command = ("/bin/sh", "-c", "trap '' TERM; echo in; while :; do sleep 1; done")
    async with session(node, key, "exec", command=command) as wire:
        await heard(wire, lambda s: b"in" in s["data"])
        await node.placement.stop(key, grace_s=1)
        await node.placement.ended(key)

    assert node.left_of(marker) == []


async def test_what_cannot_be_started_says_so_as_a_shell_would(node: Node) -> None:
    key = await node.placement.want("train-1", *SLEEPS)
    await node.placement.started(key)

    async with session(node, key, "exec", command=("no-such-program",)) as wire:
        said = await heard(wire, to_the_end)

    assert said["exit"] == b"127"
    assert said["message"] == b"cannot start: no-such-program: No such file or directory"


async def test_attached_one_sees_what_is_written_and_how_it_ends(node: Node) -> None:
    script = "trap 'echo after; exit 5' TERM; echo before; while :; do sleep 0.02; done"
    key = await node.placement.want("train-1", "/bin/sh", "-c", script)
    await node.placement.started(key)

    async with session(node, key, "attach") as wire:
        said = await heard(wire, lambda s: b"before" in s["data"])
        await node.placement.stop(key)
        rest = await heard(wire, to_the_end)

    assert said["data"] == b"before\n"
    assert b"after" in rest["data"]
    assert rest["exit"] == b"5"


SERVER = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    client.sendall(client.recv(100).upper())
    client.close()
"""


async def test_a_port_of_the_job_is_reached_and_no_other(node: Node) -> None:
    key = await node.placement.want("train-1", "python3", "-c", SERVER)
    port = int(await wrote(node, key))

    async with session(node, key, "port-forward", port=port) as wire:
        await wire.send(Frame("data", b"hello"))
        said = await heard(wire, to_the_end)
    assert said["data"] == b"HELLO"

    with socket.create_server(("127.0.0.1", 0)) as ours:
        other = ours.getsockname()[1]
        with pytest.raises(Refused, match=f"no process of the job listens at port {other}"):
            async with session(node, key, "port-forward", port=other):
                pass


@pytest.mark.security
async def test_a_job_at_the_same_port_of_another_address_leads_nobody_to_somebody_elses(
    node: Node,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as theirs:
        theirs.setblocking(False)
        port = theirs.getsockname()[1]
        beside = SERVER.replace('("127.0.0.1", 0)', f'("127.0.0.2", {port})')
        key = await node.placement.want("train-1", "python3", "-c", beside)
        await wrote(node, key)

        async with session(node, key, "port-forward", port=port) as wire:
            await wire.send(Frame("data", b"hello"))
            assert (await heard(wire, to_the_end))["data"] == b"HELLO"
        with pytest.raises(BlockingIOError):  # nobody came
            theirs.accept()


@pytest.mark.security
async def test_a_job_that_listens_in_a_network_of_its_own_leads_nobody_to_the_machines_services(
    node: Node,
) -> None:
    """The agent would connect there as root, whom the loopback filter lets pass."""
    if shutil.which("unshare") is None:
        pytest.skip("needs util-linux")
    with socket.create_server(("127.0.0.1", 0)) as service:
        service.setblocking(False)
        port = service.getsockname()[1]
        elsewhere = SERVER.replace('("127.0.0.1", 0)', f'("0.0.0.0", {port})')
        command = ("unshare", "--map-root-user", "--net", "python3", "-c", elsewhere)
        key = await node.placement.want("train-1", *command)
        if int(await wrote(node, key)) != port:
            pytest.skip("this host grants jobs no namespaces of their own")

        with pytest.raises(Refused, match=f"no process of the job listens at port {port}"):
            async with session(node, key, "port-forward", port=port):
                pass
        with pytest.raises(BlockingIOError):  # nobody came
            service.accept()


async def wrote(node: Node, key: AttemptKey) -> bytes:
    """The first that it writes."""
    await node.placement.started(key)
    while not (chunk := await node.placement.logs(key, wait_s=5.0)).data:
        pass
    return chunk.data


AT_SOCKET = """
import os, socket
os.chdir(os.environ["HEADRACE_REPORT_DIR"])  # an address is short
server = socket.socket(socket.AF_UNIX)
server.bind(os.path.basename(os.environ["HEADRACE_APP_SOCKET"]))
server.listen()
print("on", flush=True)
while True:
    client, _ = server.accept()
    client.sendall(client.recv(100).upper())
    client.close()
"""


async def test_a_socket_in_the_attempts_folder_stands_for_a_port(node: Node) -> None:
    told = {"HEADRACE_APP_PORT": "8888"}
    key = await node.placement.want("desk-1", "python3", "-c", AT_SOCKET, env=told)
    assert await wrote(node, key) == b"on\n"  # it listens

    async with session(node, key, "port-forward", port=8888) as wire:
        await wire.send(Frame("data", b"hello"))
        assert (await heard(wire, to_the_end))["data"] == b"HELLO"


@pytest.mark.parametrize("how", [os.link, os.symlink])
async def test_a_socket_of_another_in_its_place_is_not_reached(
    node: Node, how: Callable[[str, str], None]
) -> None:
    """A root agent would lead whoever opens the workspace to what only root may connect to."""
    key = await node.placement.want("desk-1", "sleep", "1000")
    await node.placement.started(key)
    with socket.socket(socket.AF_UNIX) as ours:
        reports = os.open(node.folder(key) / "reports", os.O_PATH)
        ours.bind(f"/proc/self/fd/{reports}/ours")
        ours.listen()
        how(str(node.folder(key) / "reports/ours"), str(node.folder(key) / "reports/8888.sock"))
        os.close(reports)
        with pytest.raises(Refused, match="no process of the job listens at port 8888"):
            async with session(node, key, "port-forward", port=8888):
                pass


async def test_there_is_no_way_into_what_does_not_run(node: Node) -> None:
    key = await node.placement.want("train-1", "true")
    await node.placement.ended(key)

    with pytest.raises(Refused, match=f"train-1 does not run on node {NODE} now"):
        async with session(node, key, "exec", command=("true",)):
            pass
