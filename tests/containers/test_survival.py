"""What workers in containers survive: the agent's end, the engine's, and an operator's hand."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from tests.containers.conftest import node_on
from tests.containers.engines import IMAGE, DockerEngine
from tests.containers.looking import FOREVER, SH, containers_of, wrote
from tests.node_agent.rig import Node, until

from headrace.node_agent import folders
from headrace.node_agent.containers import machine, plan
from headrace.node_agent.supervision import tree

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120)]


async def test_an_agent_that_returns_adopts_what_runs_and_loses_none_of_its_output(
    node: Node,
) -> None:
    script = (
        "n=0; while [ $n -lt 4000 ]; do echo line $n; n=$((n+1)); done; echo all; exec sleep 3600"
    )
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"line 100\n")

    await node.kill_agent()
    await node.start()
    await node.ready()
    await wrote(node, key, b"all")
    await node.placement.stop(key)
    end = await node.placement.ended(key)

    lines = (node.folder(key) / "0.log").read_text().splitlines()
    assert lines == [f"line {n}" for n in range(4000)] + ["all"]
    assert end.message == "stopped: cancelled"
    assert [report.what for report in node.placement.of(key)] == ["started", "exited"]


async def test_an_end_that_no_agent_saw_is_not_lost(node: Node, engine: DockerEngine) -> None:
    script = "echo up; while [ ! -e go ]; do sleep 0.1; done; echo done; exit 9"
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"up")

    await node.kill_agent()
    (node.folder(key) / "work" / "go").touch()
    pid = node.intent(key).pids[0]
    await until(lambda: not os.path.exists(f"/proc/{pid}"), "its end")
    await node.start()
    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("exited", 9)
    assert (await node.placement.logs(key)).data == b"up\ndone\n"
    assert containers_of(engine, node) == []


async def test_a_container_that_an_operator_removes_is_lost_and_not_an_exit(
    node: Node, engine: DockerEngine
) -> None:
    key = await node.placement.want("job-1", *FOREVER, image=IMAGE)
    await wrote(node, key, b"up")

    with closing(engine.client()) as client:
        client.containers.get(plan.name_of(node.dir, key)).remove(force=True)
    end = await node.placement.ended(key)

    assert (end.reason, end.message) == ("lost", "its container was removed")


async def test_a_container_that_an_operator_stops_is_lost_and_not_an_exit(
    node: Node, engine: DockerEngine
) -> None:
    script = 'trap "exit 0" TERM; echo up; while :; do sleep 0.1; done'
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"up")

    with closing(engine.client()) as client:
        client.containers.get(plan.name_of(node.dir, key)).stop()
    end = await node.placement.ended(key)

    assert end.reason == "lost"
    assert "docker stop" in end.message


async def test_a_container_of_nobodys_is_removed(node: Node, engine: DockerEngine) -> None:
    await node.kill_agent()
    labels = {plan.LABEL_FOLDER: str(node.dir), plan.LABEL_JOB: "old-1"}
    labels |= {plan.LABEL_ATTEMPT: "1", plan.LABEL_RANK: "0"}
    with closing(engine.client()) as client:
        client.containers.run(
            IMAGE, entrypoint="sleep", command="3600", labels=labels, detach=True,
            network_mode="host",
        )  # fmt: skip
    assert containers_of(engine, node)

    await node.start()
    await node.ready()

    await until(lambda: not containers_of(engine, node), "nobody's container is gone")


async def test_an_engine_that_is_killed_and_comes_back_costs_nothing(
    node: Node, engine: DockerEngine
) -> None:
    script = "n=0; while [ ! -e go ]; do echo line $n; n=$((n+1)); sleep 0.01; done; exit 4"
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"line 10\n")

    engine.stop(signal.SIGKILL)
    engine.start()
    seen = len((node.folder(key) / "0.log").read_bytes())
    await until(lambda: len((node.folder(key) / "0.log").read_bytes()) > seen, "more output")
    (node.folder(key) / "work" / "go").touch()
    end = await node.placement.ended(key)

    lines = (node.folder(key) / "0.log").read_text().splitlines()
    assert (end.reason, end.exit_code) == ("exited", 4)
    assert lines == [f"line {n}" for n in range(len(lines))]


async def test_a_worker_ends_by_its_fence_when_agent_and_lease_are_gone(node: Node) -> None:
    key = await node.placement.want("job-1", *FOREVER, image=IMAGE, replace_after_s=4, grace_s=1)
    await wrote(node, key, b"up")
    marker = node.intent(key).marker

    await node.kill_agent()

    await until(lambda: not tree.of_attempt(marker, [], []), "its processes are gone")
    assert (node.folder(key) / "stop-reason").read_text() == "disconnected"


async def test_the_operators_last_word_ends_containers_too(
    node: Node, engine: DockerEngine
) -> None:
    key = await node.placement.want("job-1", *FOREVER, image=IMAGE)
    await wrote(node, key, b"up")
    marker = node.intent(key).marker

    await node.close()

    assert tree.of_attempt(marker, [], []) == []
    assert containers_of(engine, node) == []


async def test_an_engine_that_takes_its_containers_with_it_has_lost_them(
    mortal_engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await node_on(mortal_engine, tmp_path, monkeypatch)
    script = 'trap "exit 0" TERM; echo up; while :; do sleep 0.1; done'
    key = await node.placement.want("job-1", SH, "-c", script, image=IMAGE)
    await wrote(node, key, b"up")

    mortal_engine.stop()
    mortal_engine.start()
    end = await node.placement.ended(key)
    await node.close()

    assert end.reason == "lost"
    assert "live-restore" in end.message


async def test_a_node_says_that_its_engine_has_gone_and_that_it_is_back(
    node: Node, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LOOK_S", 0.1)
    said = lambda: node.placement.node.engine if node.placement.node else ""  # noqa: E731
    await until(lambda: said().startswith("docker "), "its engine is said")
    await node.kill_agent()
    await node.start()
    await node.ready()

    engine.stop()
    await until(lambda: said() == "", "it is said to have gone")
    engine.start()
    await until(lambda: said().startswith("docker "), "it is said to be back")


async def test_an_agent_that_ends_before_it_has_made_the_container_makes_it_later(
    node: Node, engine: DockerEngine
) -> None:
    engine.stop()
    key = await node.placement.want("job-1", "echo", "runs", image=IMAGE)
    await until(lambda: folders.read_intent(node.folder(key)), "what is meant")

    await node.kill_agent()
    engine.start()
    await node.start()
    end = await node.placement.ended(key)

    assert (end.reason, end.exit_code) == ("exited", 0)
    assert (await node.placement.logs(key)).data == b"runs\n"
