"""Output files: what is kept of them, and how they are followed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.node_agent.rig import Node, until

from headrace.bus import subjects
from headrace.bus.agents import LogsWanted
from headrace.node_agent import log_requests, logs
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.supervision.output import Output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _wanted(offset: int = 0, bytes_max: int = 100) -> LogsWanted:
    return LogsWanted(job="j", attempt=1, rank=0, offset=offset, bytes_max=bytes_max)


def test_output_beyond_its_limit_keeps_the_beginning_and_the_end(folder: Path) -> None:
    output = Output(bytes_max=400_000)
    file = output.of(0)
    os.write(file, b"first" + b"x" * 1_000_000 + b"last")

    output.trim()

    assert (folder / "0.log").stat().st_blocks * 512 <= 400_000
    assert logs.read(folder, _wanted(bytes_max=5), has_ended=True).data == b"first"
    beyond = logs.read(folder, _wanted(offset=500_000), has_ended=True)
    assert beyond.offset > 500_000
    assert logs.read(folder, _wanted(offset=1_000_005), has_ended=True).data == b"last"


def test_output_that_grows_on_stays_below_its_limit(folder: Path) -> None:
    output = Output(bytes_max=400_000)
    for _ in range(50):
        os.write(output.of(0), b"y" * 100_000)
        output.trim()
        kept = (folder / "0.log").stat().st_blocks * 512
        assert kept <= 400_000 + 8_192  # with what the file system keeps of its own

    assert (folder / "0.log").stat().st_size == 5_000_000


def test_output_within_its_limit_is_left_alone(folder: Path) -> None:
    output = Output(bytes_max=400_000)
    os.write(output.of(0), b"z" * 300_000)

    output.trim()

    assert (folder / "0.log").stat().st_blocks * 512 >= 300_000


async def test_output_is_followed_while_it_is_written(node: Node) -> None:
    script = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"
    key = await node.placement.want("job-1", "/bin/sh", "-c", script)
    first = await node.placement.logs(key, wait_s=20)
    assert (first.data, first.ended) == (b"one\n", False)

    more = asyncio.create_task(node.placement.logs(key, offset=4, wait_s=20))
    (node.folder(key) / "work" / "go").touch()

    assert (await more).data == b"two\n"
    await node.placement.ended(key)
    last = await node.placement.logs(key, offset=8, wait_s=20)
    assert (last.data, last.ended) == (b"", True)


async def test_each_process_has_its_own_output(node: Node) -> None:
    key = await node.placement.want("job-1", "/bin/sh", "-c", "echo $LOCAL_RANK", processes=2)
    await node.placement.ended(key)

    assert (await node.placement.logs(key, process=1)).data == b"1\n"
    assert (await node.placement.logs(key, process=0)).data == b"0\n"


@pytest.mark.parametrize("job", ["../../etc", "a/../b", "a/b", ".", "", "A", "a/1/2"])
async def test_a_name_that_is_no_id_reads_nothing(node: Node, job: str) -> None:
    chunk = await node.placement.logs(AttemptKey(job, 1, 0))

    assert chunk.ended
    assert chunk.missing == f"{job!r} is not the id of a job"


async def test_output_of_an_attempt_nobody_knows_is_missing(node: Node) -> None:
    chunk = await node.placement.logs(AttemptKey("other-1", 1, 0))

    assert chunk.missing == "this node has no output of it any more"


async def test_a_process_that_is_not_there_is_missing(node: Node) -> None:
    key = await node.placement.want("job-1", "true")
    await node.placement.ended(key)

    assert (await node.placement.logs(key, process=-1)).missing == "there is no process -1"


async def test_a_request_that_is_not_understood_is_answered(node: Node) -> None:
    answer = await node.placement.bus.request(subjects.agent_down("n1", "logs"), b"{")

    assert b"missing" in answer.data


async def test_too_many_who_wait_are_answered_at_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_requests, "WAITING_MAX", 1)
    key = await node.placement.want("job-1", "sleep", "1000")
    await node.placement.started(key)
    waiting = asyncio.create_task(node.placement.logs(key, wait_s=29))
    await until(lambda: node.agent._logs._waiting, "one waits")

    chunk = await node.placement.logs(key, wait_s=29)

    assert (chunk.data, chunk.ended, waiting.done()) == (b"", False, False)
    waiting.cancel()
