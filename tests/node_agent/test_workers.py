"""Workers as real processes: how they start, end and are ended."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator

import pytest
from tests.node_agent.rig import Node, until

from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.supervision import kernel

SH = "/bin/sh"


async def test_a_command_that_ends_well_is_reported_started_then_exited(node: Node) -> None:
    key = await node.placement.want("hello-7qk2", "true")

    end = await node.placement.ended(key)

    assert [report.what for report in node.placement.of(key)] == ["started", "exited"]
    assert (end.reason, end.exit_code, end.message) == ("exited", 0, "")
    assert end.enforcement == "none"
    assert node.journal_lines(key) == ["start", "end"]


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("exit 7", 7, "exit code 7"),
        ("kill -9 $$", 137, "killed by signal 9 (Killed)"),
        ("kill -15 $$", 143, "killed by signal 15 (Terminated)"),
    ],
)
async def test_the_exit_code_is_the_commands(
    node: Node, script: str, code: int, message: str
) -> None:
    key = await node.placement.want("job-1", SH, "-c", script)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("exited", code, message)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (("no-such-command",), 127, "cannot start: no-such-command: No such file or directory"),
        (("/etc/passwd",), 126, "cannot start: /etc/passwd: Permission denied"),
        (("echo", "a\0b"), 126, "cannot start: embedded null byte"),
    ],
)
async def test_what_cannot_be_started_says_why(
    node: Node, command: tuple[str, ...], code: int, message: str
) -> None:
    key = await node.placement.want("job-1", *command)

    end = await node.placement.ended(key)

    assert [report.what for report in node.placement.of(key)] == ["exited"]
    assert (end.reason, end.exit_code, end.message) == ("start-failed", code, message)


async def test_a_folder_that_is_missing_fails_the_start(node: Node) -> None:
    key = await node.placement.want("job-1", "true", workdir="/no/such/folder")

    end = await node.placement.ended(key)

    assert end.reason == "start-failed"
    assert "/no/such/folder" in end.message


async def test_setup_runs_before_the_command_and_in_the_same_folder(node: Node) -> None:
    key = await node.placement.want(
        "job-1", SH, "-c", "cat made; exit 3", setup=(SH, "-c", "echo by setup > made")
    )

    end = await node.placement.ended(key)

    assert end.exit_code == 3
    assert (await node.placement.logs(key)).data == b"by setup\n"


async def test_a_setup_that_has_ended_takes_no_more_of_the_time_the_job_has(node: Node) -> None:
    key = await node.placement.want("job-1", "true", setup=(SH, "-c", "true"), max_duration_s=12)

    assert (
        await node.placement.ended(key)
    ).exit_code == 0  # not of 12 s of looking whether it ended


async def test_a_setup_that_fails_keeps_the_command_from_starting(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", "echo ran", setup=(SH, "-c", "exit 4"))

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("setup", 4)
    assert end.message == "exit code 4"
    assert (await node.placement.logs(key)).data == b""


@pytest.mark.parametrize(
    ("gpus", "said", "reason"),
    [
        (1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "gpu-oom"),
        (1, "java.lang.OutOfMemoryError: Java heap space", "exited"),
        (0, "CUDA out of memory", "exited"),
    ],
)
async def test_a_gpu_without_memory_left_is_told_apart_from_other_failures(
    node: Node, gpus: int, said: str, reason: str
) -> None:
    key = await node.placement.want("job-1", SH, "-c", f"echo '{said}' >&2; exit 1", gpus=gpus)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == (reason, 1)


@pytest.fixture
def deaf_to_ctrl_c() -> Iterator[None]:
    """As scripts start what they leave in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


async def test_a_worker_hears_ctrl_c_though_its_platform_does_not(
    deaf_to_ctrl_c: None, node: Node
) -> None:
    del deaf_to_ctrl_c  # before the node begins
    key = await node.placement.want("job-1", SH, "-c", "kill -INT $$; echo lives on")

    assert (await node.placement.ended(key)).exit_code == 128 + signal.SIGINT


async def test_a_worker_whose_port_somebody_else_has_does_not_start(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        key = await node.placement.want("job-1", "true", port=port, ports=1)
        end = await node.placement.ended(key)

    assert end.reason == "ports-taken"
    assert end.message == f"port {port} is taken by somebody outside Headrace"
    again = await node.placement.want("job-1", "true", attempt=2, port=port, ports=1)
    assert (await node.placement.ended(again)).exit_code == 0


async def test_a_worker_asked_to_stop_learns_why_and_may_end_well(node: Node) -> None:
    script = (
        'trap "cat $HEADRACE_STOP_REASON_FILE; exit 0" TERM; echo on; while :; do sleep 0.05; done'
    )
    key = await node.placement.want("job-1", "/bin/bash", "-c", script)
    await until_said(node, key, b"on\n")

    await node.placement.stop(key, "preempted")

    end = await node.placement.ended(key)
    assert (end.reason, end.message) == ("stopped", "stopped: preempted")
    assert (await node.placement.logs(key)).data.endswith(b"preempted")


async def test_a_worker_that_ignores_the_request_is_killed(node: Node) -> None:
    key = await node.placement.want(
        "job-1", SH, "-c", "trap '' TERM; echo on; sleep 100; sleep 100"
    )
    await until_said(node, key, b"on\n")

    await node.placement.stop(key, grace_s=0)

    end = await node.placement.ended(key)
    assert (end.reason, end.exit_code) == ("stopped", 137)


async def test_what_escapes_into_a_session_of_its_own_is_ended_too(node: Node) -> None:
    script = "(setsid setsid sleep 1000 &) ; (setsid env -i sleep 1001 &); echo on; sleep 1002"
    key = await node.placement.want("job-1", SH, "-c", script)
    await until_said(node, key, b"on\n")
    marker, shim = node.intent(key).marker, node.shim(key)

    await node.placement.stop(key, grace_s=1)

    await node.placement.ended(key)
    assert node.left_of(marker) == []
    assert node.shim(key) == 0
    assert shim > 0


async def test_children_that_nobody_collects_keep_nothing_from_ending(node: Node) -> None:
    script = (
        "import os, time\nif os.fork() == 0: os._exit(3)\nprint('on', flush=True)\ntime.sleep(1000)"
    )
    key = await node.placement.want("job-1", sys.executable, "-c", script)
    log = node.folder(key) / "0.log"
    await until(lambda: log.exists() and log.read_bytes() == b"on\n", "it has a zombie")

    await node.placement.stop(key, grace_s=1)

    assert (await node.placement.ended(key)).reason == "stopped"


async def test_a_worker_may_start_what_it_needs_to_end_well(node: Node) -> None:
    script = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo on; while :; do sleep 0.05; done"
    key = await node.placement.want("job-1", SH, "-c", script)
    await until_said(node, key, b"on\n")

    await node.placement.stop(key, grace_s=20)

    assert (await node.placement.ended(key)).reason == "stopped"
    assert (await node.placement.logs(key)).data.endswith(b"saved\n")


async def test_what_the_command_leaves_behind_ends_with_it(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", "(setsid sleep 1000 &); exit 5")
    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("exited", 5)
    assert node.left_of(node.intent(key).marker) == []


async def test_a_worker_beyond_its_time_is_ended_as_timeout_has_it(node: Node) -> None:
    script = "trap 'cat $HEADRACE_STOP_REASON_FILE; exit 0' TERM; while :; do sleep 0.05; done"
    key = await node.placement.want("job-1", SH, "-c", script, max_duration_s=2)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("stopped", 124, "max_duration reached")
    assert (await node.placement.logs(key)).data.endswith(b"timeout")


SAVES = "trap 'cat $HEADRACE_STOP_REASON_FILE; exit 3' USR1; echo on; while :; do sleep 0.05; done"
OF_A_SHELL = ("/bin/bash", "-c", '/bin/bash -c "$0"; echo "; shell saw $?"', SAVES)


async def test_who_saves_itself_is_asked_before_its_time_is_over(node: Node) -> None:
    saves = {"checkpoint_signal": "USR1", "checkpoint_grace_s": 60}
    key = await node.placement.want("job-1", *OF_A_SHELL, max_duration_s=4, **saves)

    end = await node.placement.ended(key)

    assert (end.exit_code, end.message) == (124, "max_duration reached")
    assert (await node.placement.logs(key)).data.endswith(b"timeout; shell saw 3\n")


async def test_the_signal_meets_what_listens_and_no_shell_that_waits_for_it(node: Node) -> None:
    key = await node.placement.want("job-1", *OF_A_SHELL)
    await until_said(node, key, b"on\n")

    await node.placement.stop(key, "preempted", by="USR1")

    assert (await node.placement.ended(key)).reason == "stopped"
    assert (await node.placement.logs(key)).data.endswith(b"preempted; shell saw 3\n")


async def test_a_signal_for_the_command_alone_meets_nothing_that_it_started(node: Node) -> None:
    script = "trap 'echo heard' USR1; echo on; sleep 3 & wait $!; wait $! && echo slept"
    key = await node.placement.want("job-1", "/bin/bash", "-c", script)
    await until_said(node, key, b"on\n")

    await node.placement.stop(key, by="B:USR1", grace_s=60)

    await node.placement.ended(key)
    assert (await node.placement.logs(key)).data == b"on\nheard\nslept\n"


@pytest.mark.parametrize("code", [0, 3])
async def test_a_job_may_ask_for_another_attempt(node: Node, code: int) -> None:
    script = f"touch $HEADRACE_REPORT_DIR/requeue; exit {code}"
    key = await node.placement.want("job-1", SH, "-c", script)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("requeued", code)


async def test_a_shell_that_listens_hears_it_also_where_its_program_does_not(node: Node) -> None:
    script = "trap 'echo saved; exit 0' USR1; echo on; sleep 1000"
    key = await node.placement.want("job-1", "/bin/bash", "-c", script)
    await until_said(node, key, b"on\n")

    await node.placement.stop(key, by="USR1", grace_s=20)

    assert (await node.placement.ended(key)).reason == "stopped"
    assert (await node.placement.logs(key)).data.endswith(b"saved\n")


async def test_who_takes_too_long_to_save_itself_can_be_ended_at_once(node: Node) -> None:
    script = "trap 'echo saving; sleep 1000' USR1; echo on; while :; do sleep 0.05; done"
    key = await node.placement.want("job-1", "/bin/bash", "-c", script)
    await until_said(node, key, b"on\n")
    await node.placement.stop(key, by="USR1", grace_s=600)
    await until_said(node, key, b"saving\n")

    await node.placement.stop(key, grace_s=0)

    assert (await node.placement.ended(key)).reason == "stopped"


async def test_one_process_that_fails_ends_its_peers(node: Node) -> None:
    script = '[ "$LOCAL_RANK" = 1 ] && exit 9; sleep 1000'
    key = await node.placement.want("job-1", SH, "-c", script, processes=3)

    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code, end.message) == ("exited", 9, "process 1: exit code 9")
    assert end.process == 1
    assert node.left_of(node.intent(key).marker) == []


async def test_a_stop_before_the_start_is_an_end_without_a_start(node: Node) -> None:
    key = await node.placement.want("job-1", "true", stop=True, stop_reason="cancelled")

    end = await node.placement.ended(key)

    assert [report.what for report in node.placement.of(key)] == ["exited"]
    assert (end.reason, end.message) == ("stopped", "stopped before it started: cancelled")
    assert node.journal_lines(key) == []


async def test_many_short_jobs_each_run_once(node: Node) -> None:
    keys = [await node.placement.want(f"job-{n}", "true") for n in range(60)]

    for key in keys:
        assert (await node.placement.ended(key)).exit_code == 0

    assert [node.journal_lines(key) for key in keys] == [["start", "end"]] * 60
    assert [[r.what for r in node.placement.of(key)] for key in keys] == [
        ["started", "exited"]
    ] * 60


async def until_said(node: Node, key: AttemptKey, text: bytes) -> None:
    log = node.folder(key) / "0.log"
    await until(lambda: log.exists() and text in log.read_bytes(), f"{text!r} in the output")


async def test_what_came_to_its_own_end_before_it_was_asked_has_not_been_stopped(
    node: Node,
) -> None:
    key = await node.placement.want("job-1", SH, "-c", "while [ ! -e go ]; do sleep 0.01; done")
    await node.placement.started(key)
    (pid,) = node.intent(key).pids
    os.kill(node.shim(key), signal.SIGSTOP)  # it sees both at once
    (node.folder(key) / "work" / "go").touch()
    await until(lambda: kernel.stat(pid)[:1] in ([b"Z"], []), "the worker has ended")

    await node.placement.stop(key, "preempted")

    end = await node.placement.ended(key)
    assert (end.reason, end.exit_code, end.message) == ("exited", 0, "")
