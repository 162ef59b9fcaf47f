"""The whole platform, as `headrace up --detach` starts it, in a data dir of its own."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.open_folders import open_folder

from headrace.embedded import processes, status
from headrace.embedded.processes import Process
from headrace.testing.running import RunningPlatform, started

READY_S_MAX = 60.0
JOB_S_MAX = 60.0


class Platform(RunningPlatform):
    """A platform, and what only our own tests do to it."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.journal = home / "attempts"  # written by whatever runs, outside Headrace
        self.env["HEADRACE_ATTEMPT_JOURNAL"] = str(self.journal)

    def json(self, *arguments: str) -> Any:
        """What a reading command says with `-o json`."""
        return msgspec.json.decode(self.headrace(*arguments, "-o", "json").stdout)

    def described(self, job: str) -> Any:
        """What `describe -o json` says, without a process of its own: for what is asked often."""
        with contextlib.closing(self.client()) as client:
            return msgspec.to_builtins(client.job(job))

    def verify(self) -> str:
        """What `headrace verify` says; it must find nothing."""
        return self.headrace("verify", "--data-dir", str(self.data_dir)).stdout

    def wait(self, is_so: Callable[[], object], what: str = "") -> None:
        """Wait until `is_so()`."""
        in_time = processes.wait_until(lambda: bool(is_so()), JOB_S_MAX, poll_s=0.05)
        assert in_time, f"did not happen: {what or is_so}"

    def ended(self, job: str) -> Any:
        """The job's row as JSON, once it has ended."""
        return msgspec.to_builtins(super().ended(job))

    def report(self) -> status.Report:
        """Every process, its state and its memory."""
        return status.report(self.layout)

    def processes(self) -> dict[str, Process]:
        """The running processes by name: supervisor, postgres, nats, the services, the nodes."""
        found = (
            (row.name, row.pid and processes.identify(row.pid)) for row in self.report().processes
        )
        return {name: process for name, process in found if process}

    def pids(self) -> dict[str, int]:
        """Their pids."""
        return {name: process.pid for name, process in self.processes().items()}

    def kill(self, name: str, number: int = signal.SIGKILL) -> Process:
        """Signal one process; returns once it has ended (with SIGKILL), with what it was."""
        process = self.processes()[name]
        processes.send(process, number)
        if number == signal.SIGKILL:
            assert processes.wait_until(lambda: not processes.alive(process), READY_S_MAX)
        return process

    def wait_ready(self) -> status.Report:
        """Wait until every process is ready."""
        in_time = processes.wait_until(lambda: self.report().ready, READY_S_MAX, poll_s=0.05)
        report = self.report()
        rows = [row for row in report.processes if row.state != "ready"]
        assert in_time, f"not ready: {rows}, logs in {self.layout.logs}"
        return report

    def wait_free(self) -> None:
        """Wait until every GPU is back in the pool."""
        with contextlib.closing(self.client()) as client:
            self.wait(lambda: not any(node.held_milli for node in client.nodes()), "free GPUs")

    def logs(self) -> dict[str, str]:
        """What every process wrote so far."""
        return {path.stem: path.read_text() for path in sorted(self.layout.logs.glob("*.log"))}


@contextlib.contextmanager
def running_platform(*options: str, **env: str) -> Iterator[Platform]:
    """A platform started with these options and variables; it and its data are gone afterwards."""
    platform = Platform(Path(tempfile.mkdtemp(prefix="headrace-e2e-")))
    with started(platform, *options, **env):
        yield platform


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Where jobs of this test's platform may write, whichever account they run as."""
    with open_folder() as folder:
        yield folder


@pytest.fixture
def new_platform() -> Iterator[Callable[..., Platform]]:
    """Starts platforms with these options and variables, which are the test's own: one that
    nobody uses any more would still take of what the others have.
    """
    with contextlib.ExitStack() as started:
        yield lambda *options, **env: started.enter_context(running_platform(*options, **env))


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """Two nodes of eight simulated GPUs, shared by the run. Tests leave it running and ready; what
    they left in its log is verified when all are done.
    """
    with running_platform("--nodes", "2", "--gpus", "simulated:8xH100-80GB") as started:
        yield started
        started.verify()
