"""What a worker's program reports goes on as a signal, and into the log with its end."""

from __future__ import annotations

import time

import msgspec
import pytest
from tests.node_agent.rig import Node, until

from headrace.bus.agents import Progress, Reported
from headrace.bus.interface import Message
from headrace.bus.memory import MemoryBus
from headrace.bus.subjects import progress_up
from headrace.node_agent import heartbeats
from headrace.node_agent.supervision.protocol import REPORTS
from headrace.runtime.progress import KEPT_S, WORKERS_MAX, ProgressHeard

SAYS = """said() { echo "{\\"values\\": $1}" > $HEADRACE_REPORT_DIR/$HEADRACE_LOCAL_RANK.json; }
said '{"step": "7", "loss": "0.5"}'
while [ ! -e $HEADRACE_OUTPUT_DIR/go ]; do sleep 0.05; done
said '{"step": "8", "loss": "0.25"}'"""
STEP_7 = {0: {"step": "7", "loss": "0.5"}}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "SIGNAL_S", 0.1)


@pytest.fixture
async def heard(node: Node):
    heard = ProgressHeard(time.monotonic, lambda node, _: node == "n1")
    await heard.listen(MemoryBus(node.broker, "somebody"))
    yield heard
    await heard.stop()


async def test_what_a_worker_says_is_heard_while_it_runs_and_recorded_at_its_end(
    node: Node, heard: ProgressHeard
) -> None:
    key = await node.placement.want("job-1", "/bin/sh", "-c", SAYS)
    await until(lambda: heard.of("job-1", 1) == STEP_7, "step 7 is heard")

    (node.folder(key) / "output" / "go").touch()
    end = await node.placement.ended(key)

    assert end.reported == {"step": "8", "loss": "0.25"}
    assert [said.project for said in heard.all()] == ["vision"]


async def test_a_worker_that_says_nothing_is_not_spoken_of(
    node: Node, heard: ProgressHeard
) -> None:
    key = await node.placement.want("job-1", "true")

    assert (await node.placement.ended(key)).reported == {}
    assert (node.folder(key) / REPORTS).is_dir()
    assert list(heard.all()) == []


def test_who_is_not_repeated_is_forgotten_and_so_are_the_oldest_and_what_others_say() -> None:
    now = [0.0]
    heard = ProgressHeard(lambda: now[0], lambda node, said: (node, said.rank) == ("n1", 0))

    def say(*jobs: str, node: str = "n1") -> None:
        workers = [Reported(job=j, attempt=1, rank=0, project="p", values={}) for j in jobs]
        data = msgspec.json.encode(Progress(node="n1", workers=tuple(workers)))
        heard._hear(Message(subject=progress_up(node), data=data))

    say("first", *(f"job-{i}" for i in range(WORKERS_MAX)), node="n2")
    assert list(heard.all()) == []
    assert heard.of("job-1", 1) == {}

    say("first", *(f"job-{i}" for i in range(WORKERS_MAX)))
    assert len(list(heard.all())) == WORKERS_MAX
    assert heard.of("first", 1) == {}

    now[0] = KEPT_S + 1
    say("later")
    heard._hear(Message(subject=progress_up("n1"), data=b"nonsense"))

    assert [said.job for said in heard.all()] == ["later"]
