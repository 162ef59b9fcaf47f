"""The ladder: in which order processes leave their GPUs, and what one failure at each step does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.node_agent.pausing import CHECKPOINTED, FAILED, LOCKED, RUNNING
from headrace.node_agent.pausing.cuda_helper import answer, whole_mapping
from headrace.node_agent.pausing.ladder import PAUSED, Step, Way, broken, steps, turned
from headrace.node_agent.pausing.moving import move
from headrace.node_agent.pausing.simulated import SimulatedDriver
from headrace.node_agent.supervision import kernel

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


@pytest.fixture
def two() -> Iterator[list[int]]:
    """The pids of two processes."""
    children = [subprocess.Popen(SLEEP) for _ in range(2)]
    yield [child.pid for child in children]
    for child in children:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("wanted", "states", "expected"),
    [
        (LOCKED, {1: RUNNING, 2: RUNNING}, [("lock", 1), ("lock", 2)]),
        (LOCKED, {1: LOCKED, 2: RUNNING}, [("lock", 2)]),
        (LOCKED, {1: LOCKED, 2: LOCKED}, []),
        (PAUSED, {1: LOCKED, 2: RUNNING}, [("lock", 2)]),  # nobody leaves before all are locked
        (PAUSED, {1: LOCKED, 2: LOCKED}, [("checkpoint", 1), ("checkpoint", 2)]),
        (PAUSED, {1: CHECKPOINTED, 2: LOCKED}, [("checkpoint", 2)]),
        (PAUSED, {1: CHECKPOINTED, 2: CHECKPOINTED}, []),
        (RUNNING, {1: CHECKPOINTED, 2: LOCKED}, [("restore", 1)]),  # nor runs before all are back
        (RUNNING, {1: LOCKED, 2: LOCKED}, [("unlock", 1), ("unlock", 2)]),
        (RUNNING, {1: RUNNING, 2: LOCKED}, [("unlock", 2)]),
        (RUNNING, {}, []),
        (PAUSED, {}, []),
    ],
)
def test_all_take_one_step_before_any_takes_the_next(wanted, states, expected):
    assert list(steps(wanted, states)) == [Step(*step) for step in expected]


def test_a_failure_on_the_way_out_leads_back_and_one_on_the_way_back_breaks():
    out = turned(Way(PAUSED), "no")

    assert out == Way(RUNNING, "no")
    assert turned(out, "again") == Way(RUNNING, "no", is_broken=True)


def test_what_the_driver_gave_up_is_named():
    assert broken({7: FAILED, 5: LOCKED, 6: FAILED}) == "the driver gave up process 6, 7"


@pytest.mark.parametrize("wanted", [LOCKED, PAUSED])
def test_all_of_a_worker_reach_what_is_wanted_and_come_back(two, tmp_path, wanted):
    driver = SimulatedDriver(tmp_path)

    assert move(driver, lambda: two, wanted, {}) == Way(wanted)
    away = [driver.state(pid) for pid in two]
    stopped = [kernel.stat(pid)[0] == b"T" for pid in two]
    assert move(driver, lambda: two, RUNNING, {}) == Way(RUNNING)

    assert away == [CHECKPOINTED if wanted == PAUSED else LOCKED] * 2
    assert stopped == [wanted == PAUSED] * 2
    assert [driver.state(pid) for pid in two] == [RUNNING] * 2
    assert b"T" not in {kernel.stat(pid)[0] for pid in two}


@pytest.mark.parametrize("step", ["lock", "checkpoint"])
def test_a_refused_step_on_the_way_out_leaves_all_running(two, tmp_path, step):
    driver = SimulatedDriver(tmp_path, fails=[step])

    way = move(driver, lambda: two, PAUSED, {})

    assert (way.wanted, way.is_broken) == (RUNNING, False)
    assert f"{step} {two[0]}" in way.failed
    assert [driver.state(pid) for pid in two] == [RUNNING] * 2
    assert b"T" not in {kernel.stat(pid)[0] for pid in two}


@pytest.mark.parametrize("step", ["restore", "unlock"])
def test_a_refused_step_on_the_way_back_breaks_the_worker(two, tmp_path, step):
    driver = SimulatedDriver(tmp_path)
    move(driver, lambda: two, PAUSED, {})
    driver.fails = [step]

    way = move(driver, lambda: two, RUNNING, {})

    assert way.is_broken
    assert f"{step} " in way.failed


@pytest.mark.parametrize("step", ["lock", "checkpoint", "restore", "unlock"])
def test_a_process_that_the_driver_gives_up_breaks_the_worker(two, tmp_path, step):
    driver = SimulatedDriver(tmp_path)
    if step in ("restore", "unlock"):
        move(driver, lambda: two, PAUSED, {})
    driver.breaks = [step]

    way = move(driver, lambda: two, RUNNING if step in ("restore", "unlock") else PAUSED, {})

    assert way.is_broken
    assert way.failed


@pytest.mark.parametrize("states", [(LOCKED, RUNNING), (CHECKPOINTED, LOCKED), (LOCKED, LOCKED)])
@pytest.mark.parametrize("wanted", [PAUSED, RUNNING])
def test_whoever_was_interrupted_goes_on_from_how_things_stand(two, tmp_path, states, wanted):
    driver = SimulatedDriver(tmp_path)
    for pid, state in zip(two, states, strict=True):
        if state != RUNNING:
            driver.lock(pid)
        if state == CHECKPOINTED:
            driver.checkpoint(pid)

    assert move(SimulatedDriver(tmp_path), lambda: two, wanted, {}) == Way(wanted)

    reached = CHECKPOINTED if wanted == PAUSED else RUNNING
    assert [driver.state(pid) for pid in two] == [reached] * 2


def test_a_number_used_again_is_not_the_process_that_was_noted(two, tmp_path):
    driver = SimulatedDriver(tmp_path)
    (tmp_path / "simulated-driver").mkdir()
    (tmp_path / "simulated-driver" / str(two[0])).write_text("locked 1")

    assert driver.state(two[0]) == RUNNING


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        ({}, {}),
        ({"GPU-a": "GPU-b"}, {"a": "b", "b": "a", "c": "c"}),
        ({"GPU-a": "GPU-b", "GPU-b": "GPU-c"}, {"a": "b", "b": "c", "c": "a"}),
    ],
)
def test_the_driver_is_told_of_every_gpu_each_exactly_once(moved, expected):
    assert whole_mapping(moved, ["GPU-a", "GPU-b", "GPU-c"]) == expected


@pytest.mark.parametrize("line", ["", "{}", '["no-such-call", 1]', '["state"]'])
def test_the_helper_answers_whatever_it_is_asked(line, tmp_path: Path):
    found = answer(lambda: SimulatedDriver(tmp_path), line)

    assert found.startswith('[null, "')
