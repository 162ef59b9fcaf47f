"""What is killed, restarted, repeated or damaged, and what must stay true nevertheless."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.node_agent.placement_twin import DEADLINE_S
from tests.node_agent.rig import Node, kill, until

from headrace.node_agent import launcher_link, stopping
from headrace.node_agent.launcher_link import LauncherLink
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.stopping import stop_all
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.protocol import SOCKET, VERSION, greeting_line

LAUNCHERS = 12  # that end as soon as they serve
SH = "/bin/sh"
UNTIL_TOLD = "while [ ! -e go ]; do sleep 0.01; done; exit 7"


def tell(node: Node, key: AttemptKey) -> None:
    (node.folder(key) / "work" / "go").touch()


async def test_a_worker_outlives_its_agent_and_the_next_one_has_its_exit_code(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)
    shim = node.shim(key)

    await node.kill_agent()
    await node.start()
    await node.ready()
    assert node.shim(key) == shim
    assert node.placement.running == (key,)
    tell(node, key)

    end = await node.placement.ended(key)
    assert (end.reason, end.exit_code) == ("exited", 7)
    assert [report.what for report in node.placement.of(key)] == ["started", "exited"]
    assert node.incarnations == 1


async def test_a_worker_that_ends_while_no_agent_is_there_is_reported_by_the_next(
    node: Node,
) -> None:
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)

    await node.kill_agent()
    tell(node, key)
    await until(lambda: not node.shim(key), "the worker ends")
    await node.start()

    end = await node.placement.ended(key)
    assert (end.reason, end.exit_code) == ("exited", 7)
    assert node.journal_lines(key) == ["start", "end"]


async def test_an_end_that_placement_never_answered_is_repeated_to_the_next(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)
    node.placement.answers = False
    tell(node, key)
    await until(lambda: node.journal.reported(key).exited, "the end is in the journal")

    await node.kill_agent()
    node.placement.answers = True
    await node.start()

    assert (await node.placement.ended(key)).exit_code == 7
    assert [report.what for report in node.placement.of(key)] == ["started", "exited"]


async def test_when_a_shim_is_killed_its_worker_dies_and_is_lost(node: Node) -> None:
    script = "(setsid sleep 1000 &); (setsid setsid sleep 1001 &); sleep 1002"
    key = await node.placement.want("job-1", SH, "-c", script)
    await node.placement.started(key)
    marker = node.intent(key).marker

    kill(node.shim(key))

    end = await node.placement.ended(key)
    assert end.reason == "lost"
    assert node.left_of(marker) == []
    assert node.journal_lines(key) == ["start", "end"]


async def test_shim_launcher_and_agent_killed_together_leave_nothing(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", "(setsid sleep 1000 &); sleep 1001")
    await node.placement.started(key)
    marker = node.intent(key).marker

    await node.kill_agent()
    kill(node.launcher())
    kill(node.shim(key))
    await node.start()

    assert (await node.placement.ended(key)).reason == "lost"
    assert node.left_of(marker) == []


async def test_workers_outlive_the_launcher_and_new_ones_start(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)
    first = node.launcher()

    kill(first)
    other = await node.placement.want("job-2", "true")

    assert (await node.placement.ended(other)).exit_code == 0
    assert node.launcher() not in {0, first}
    tell(node, key)
    assert (await node.placement.ended(key)).exit_code == 7


async def test_a_launcher_killed_under_many_starts_loses_and_repeats_none(node: Node) -> None:
    keys = [await node.placement.want(f"job-{n}", "true") for n in range(20)]
    for _ in range(3):
        await until(node.launcher, "a launcher")
        kill(node.launcher())
        keys += [await node.placement.want(f"job-{len(keys)}", "true") for _ in range(10)]

    ends = [await node.placement.ended(key) for key in keys]

    assert [end.exit_code for end in ends if end.reason == "exited"] == [0] * len(keys)
    assert {tuple(node.journal_lines(key)) for key in keys} == {("start", "end")}


async def test_a_start_that_is_said_twice_runs_once(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)
    held = node.agent._machine._held[key]

    spec = {"folder": f"attempts/{node.folder(key).name}", "confinement": {"view": None}}
    for _ in range(3):
        node.agent._machine._link.start(spec)
    other = await node.placement.want("job-2", "true")
    await node.placement.ended(other)  # so the launcher has taken those before it
    tell(node, key)

    assert (await node.placement.ended(key)).exit_code == 7
    assert held.seen.phase == "ended"
    assert node.journal_lines(key) == ["start", "end"]


@pytest.mark.parametrize("had_a_folder", [False, True])
async def test_what_was_reported_as_ended_is_not_started_by_a_late_launcher(
    node: Node, *, had_a_folder: bool
) -> None:
    await until(lambda: node.agent._machine._link.is_up, "a launcher is connected")
    launcher = node.launcher()
    os.kill(launcher, signal.SIGSTOP)  # it has the start, and has not come to it
    key = await node.placement.want("job-1", "true")
    await until(lambda: key in node.agent._machine._held, "the start is handed over")
    await asyncio.sleep(0)
    await node.kill_agent()
    if had_a_folder:
        node.folder(key).mkdir()  # as its shim leaves it that has come only so far
    await node.placement.stop(key)
    await node.start()
    assert (await node.placement.ended(key)).reason == ("lost" if had_a_folder else "stopped")

    os.kill(launcher, signal.SIGCONT)
    other = await node.placement.want("job-2", "true")
    await node.placement.ended(other)

    assert node.journal_lines(key) == []


async def test_after_a_reboot_what_ran_before_is_lost_and_not_started_again(node: Node) -> None:
    key = await node.placement.want("job-1", "sleep", "1000")
    await node.placement.started(key)
    await node.kill_agent()
    await asyncio.to_thread(stop_all, node.dir)  # what a reboot does to processes
    (node.folder(key) / "exit.json").unlink()
    never = await node.placement.want("job-2", "true")
    intent = node.folder(key) / "intent.json"
    intent.write_text(intent.read_text().replace(node.boot, "the boot before"))
    journal = node.dir / "journal.jsonl"
    journal.write_text(journal.read_text().replace(node.boot, "the boot before"))

    await node.start()

    assert (await node.placement.ended(key)).reason == "lost"
    assert (await node.placement.ended(never)).reason == "lost"
    assert node.journal_lines(never) == []
    after = await node.placement.want("job-3", "true")
    assert (await node.placement.ended(after)).reason == "exited"


async def test_without_its_folder_a_node_starts_nothing_of_before(node: Node) -> None:
    key = await node.placement.want("job-1", "sleep", "1000")
    await node.placement.started(key)
    await node.kill_agent()
    await asyncio.to_thread(stop_all, node.dir)
    for name in ("journal.jsonl", "node.key"):
        (node.dir / name).unlink()
    for file in node.folder(key).rglob("*"):
        if file.is_file():
            file.unlink()

    await node.start()

    assert (await node.placement.ended(key)).reason == "lost"


async def test_a_job_whose_shim_is_held_is_stopped_nevertheless(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", "sleep 1000")
    await node.placement.started(key)
    os.kill(node.shim(key), signal.SIGSTOP)
    await until(lambda: kernel.stat(node.shim(key))[:1] == [b"T"], "the shim is stopped")

    await node.placement.stop(key, grace_s=1)

    assert (await node.placement.ended(key)).reason == "stopped"


async def test_a_launcher_of_another_version_makes_room(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)
    first = node.launcher()
    await node.kill_agent()

    monkeypatch.setattr(launcher_link, "VERSION", VERSION + 1)
    await node.start()
    await until(lambda: not kernel.start_time(first), "the first launcher leaves")
    monkeypatch.setattr(launcher_link, "VERSION", VERSION)
    other = await node.placement.want("job-2", "true")
    await node.placement.ended(other)
    tell(node, key)

    assert (await node.placement.ended(key)).exit_code == 7


async def test_who_saves_itself_is_asked_also_where_everything_on_a_node_ends(node: Node) -> None:
    script = (
        "trap 'cat $HEADRACE_STOP_REASON_FILE; exit 3' USR1; echo on; while :; do sleep 0.05; done"
    )
    saves = {"checkpoint_signal": "USR1", "checkpoint_grace_s": 60}
    key = await node.placement.want("job-1", "/bin/bash", "-c", script, **saves)
    log = node.folder(key) / "0.log"
    await until(lambda: log.exists() and log.read_bytes() == b"on\n", "it listens")
    await node.kill_agent()

    await asyncio.to_thread(stop_all, node.dir)

    assert log.read_bytes().endswith(b"down")


async def test_everything_on_a_node_can_be_ended_without_its_agent(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "GRACE_S", 1)
    keys = [
        await node.placement.want("job-1", "sleep", "1000"),
        await node.placement.want("job-2", SH, "-c", "trap '' TERM; sleep 1000 & wait"),
        await node.placement.want("job-3", "true"),
    ]
    for key in keys:
        await node.placement.started(key)
    await node.placement.ended(keys[2])
    await node.kill_agent()

    assert await asyncio.to_thread(stop_all, node.dir) == 2
    assert await asyncio.to_thread(stop_all, node.dir) == 0

    assert node.launcher() == 0
    assert [node.left_of(node.intent(key).marker) for key in keys] == [[], [], []]
    await node.start()
    for key in keys[:2]:
        assert (await node.placement.ended(key)).reason == "stopped"


async def test_an_interrupted_shim_folder_is_no_end(node: Node) -> None:
    key = await node.placement.want("job-1", SH, "-c", UNTIL_TOLD)
    await node.placement.started(key)
    (node.folder(key) / "exit.json").write_text("{")

    os.kill(node.shim(key), signal.SIGKILL)

    assert (await node.placement.ended(key)).reason == "lost"


async def test_a_launcher_that_ends_whenever_it_is_told_something_is_started_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greeting, served = greeting_line(os.getpid()), asyncio.Event()
    connected = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        writer.write(greeting)
        writer.close()
        if connected == LAUNCHERS:
            served.set()

    paused: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        paused.append(seconds)
        await sleep(0)

    monkeypatch.setattr(launcher_link.asyncio, "sleep", pause)
    server = await asyncio.start_unix_server(hang_up, tmp_path / SOCKET)
    link = LauncherLink(tmp_path, said=lambda _line: None, connected=lambda: None)
    link.open()
    await asyncio.wait_for(served.wait(), DEADLINE_S)
    await link.close()
    server.close()
    assert paused[: LAUNCHERS - 1] == sorted(paused[: LAUNCHERS - 1])
    assert paused[LAUNCHERS - 2] == launcher_link.RETRY_S_MAX
