"""What a program asks and says inside a worker, and without Headrace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.node_agent import worker_reports
from headrace.node_agent.supervision.protocol import REPORTS

HERE = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}


def run(script: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A program of the user's, with nothing in its environment but this."""
    command = [sys.executable, *options, "-c", f"import headrace.client as headrace\n{script}"]
    return subprocess.run(command, env=HERE | env, text=True, capture_output=True)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    (tmp_path / REPORTS).mkdir()
    return tmp_path / REPORTS


def test_without_headrace_every_call_does_nothing() -> None:
    done = run(
        "headrace.report(step=1, loss=0.5); headrace.progress(1, 2)\n"
        "print(headrace.rank(), headrace.local_rank(), headrace.world_size(),"
        " headrace.checkpoint_requested(), repr(headrace.stop_reason()))"
    )

    assert (done.stdout, done.stderr) == ("0 0 1 False ''\n", "")


def test_a_worker_needs_the_standard_library_alone() -> None:
    folder = Path(__file__).parents[2] / "libs"
    found = run(
        "headrace.report(loss=1)\nimport sys; print({'msgspec', 'websockets'} & set(sys.modules))",
        "-S",  # without what is installed
        PYTHONPATH=str(folder),
    )

    assert (found.stdout, found.stderr) == ("set()\n", "")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"HEADRACE_RANK": "3", "HEADRACE_LOCAL_RANK": "1", "HEADRACE_WORLD_SIZE": "4"}, "3 1 4"),
        ({"HEADRACE_RANK": "1", "RANK": "5", "LOCAL_RANK": "2", "WORLD_SIZE": "8"}, "5 2 8"),
        ({"RANK": "0", "OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "9"}, "7 0 9"),
    ],
)
def test_the_innermost_launcher_says_which_process_this_is(told, expected) -> None:
    script = "print(headrace.rank(), headrace.local_rank(), headrace.world_size())"

    assert run(script, **told).stdout.strip() == expected


def test_the_last_of_each_value_is_what_the_agent_reads(reports: Path) -> None:
    script = (
        "for step in range(1000): headrace.report(step=step, loss=1 / (step + 1))\n"
        "headrace.report(accuracy=0.97)"
    )
    done = run(script, HEADRACE_REPORT_DIR=str(reports))

    assert done.stderr == ""
    values = {"step": "999", "loss": "0.001", "accuracy": "0.97"}
    assert worker_reports.values_of(reports.parent) == values
    assert [file.name for file in reports.iterdir()] == ["0.json"]


def test_a_disk_that_cannot_be_written_ends_no_training(tmp_path: Path) -> None:
    done = run("headrace.report(loss=1); print('goes on')", HEADRACE_REPORT_DIR=f"{tmp_path}/no")

    assert (done.stdout, done.stderr) == ("goes on\n", "")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("report(**{'a b': 1})", "ValueError: 'a b' is no name"),
        ("report(**{f'v{i}': i for i in range(17)})", "ValueError: at most 16 names"),
        ("report(loss=None)", "TypeError: "),
    ],
)
def test_what_can_never_be_reported_is_said_at_once(call: str, error: str) -> None:
    assert error in run(f"headrace.{call}").stderr


def test_why_it_is_to_end_is_read_from_the_file(tmp_path: Path) -> None:
    reason = tmp_path / "stop-reason"
    reason.write_text("preempted")
    script = "print(headrace.checkpoint_requested(), headrace.stop_reason())"

    done = run(script, HEADRACE_STOP_REASON_FILE=str(reason))

    assert done.stdout == "True preempted\n"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense",
        json.dumps({"values": "x"}),
        json.dumps({"values": {"loss": 1}}),
        json.dumps({"values": {"loss": "drop table"}}),
        json.dumps({"values": {"a b": "1"}}),
        json.dumps({"values": {"loss": "1" * 100}}),
        json.dumps({"values": {"loss": "1", "pad": "1" * 10_000}}),
    ],
)
def test_nothing_is_believed_that_is_no_report(reports: Path, content: str) -> None:
    (reports / "0.json").write_text(content)

    assert worker_reports.values_of(reports.parent) == {}


def test_no_link_is_followed_and_no_pipe_waited_for(reports: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({"values": {"loss": "1"}}))
    (reports / "0.json").symlink_to(secret)
    os.mkfifo(reports / "1.json")
    (reports / "2.json").write_text(json.dumps({"values": {"loss": "nan", "step": "3"}}))

    assert worker_reports.values_of(reports.parent) == {"loss": "nan", "step": "3"}


def test_no_more_is_read_than_the_bounds_allow(reports: Path) -> None:
    values = {f"v{i:02}": "1" for i in range(40)}
    (reports / "0.json").write_text(json.dumps({"values": values}))

    assert len(worker_reports.values_of(reports.parent)) == 16
