"""The whole platform, as `headrace up --detach` starts it, in a data dir of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.client.model import ENDED
from headrace.embedded import processes, status
from headrace.embedded.layout import Layout
from headrace.embedded.nats import Nats
from headrace.embedded.processes import Process

READY_S_MAX = 60.0
VERB_S_MAX = 120.0
JOB_S_MAX = 60.0
OTHERS = ("HEADRACE_URL", "HEADRACE_TOKEN", "HEADRACE_PG_DSN", "HEADRACE_NATS_URL")  # not ours


class Platform:
    """A platform to start. `home` holds its data dir and the command line's configuration."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data_dir = home / "data"
        self.layout = Layout(self.data_dir)
        self.journal = home / "attempts"  # written by whatever runs, outside Headrace
        self.env = {
            **{name: value for name, value in os.environ.items() if name not in OTHERS},
            "XDG_CONFIG_HOME": str(home / "config"),
            "HEADRACE_PROJECT": "default",
            "HEADRACE_ATTEMPT_JOURNAL": str(self.journal),
        }

    @property
    def url(self) -> str:
        """The gateway's address."""
        return self.report().url

    @property
    def nats_url(self) -> str:
        """Where its bus is."""
        return Nats(self.layout.nats).url

    @property
    def token(self) -> str:
        """The admin's token."""
        return (self.layout.secrets / "admin.token").read_text()

    def headrace(
        self, *arguments: str, check: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run one command line against it."""
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli", *arguments],
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=VERB_S_MAX,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def json(self, *arguments: str) -> Any:
        """What a reading command says with `-o json`."""
        return msgspec.json.decode(self.headrace(*arguments, "-o", "json").stdout)

    def verify(self) -> str:
        """What `headrace verify` says; it must find nothing."""
        return self.headrace("verify", "--data-dir", str(self.data_dir)).stdout

    def wait(self, is_so: Callable[[], object], what: str = "") -> None:
        """Wait until `is_so()`."""
        in_time = processes.wait_until(lambda: bool(is_so()), JOB_S_MAX, poll_s=0.05)
        assert in_time, f"did not happen: {what or is_so}"

    def ended(self, job: str) -> Any:
        """The job's row, once it has ended."""
        rows: list[Any] = []

        def has_ended() -> bool:
            rows[:] = [self.json("describe", job)["job"]]
            return rows[0]["state"] in ENDED

        self.wait(has_ended, f"the end of {job}")
        return rows[0]

    def up(self, *options: str) -> str:
        """Start it, or adopt what a killed supervisor left; what `headrace up` printed."""
        where = ("--data-dir", str(self.data_dir), "--detach")
        return self.headrace("up", *where, *options).stdout

    def down(self, *options: str) -> str:
        """Stop it; what `headrace down` printed."""
        return self.headrace("down", "--data-dir", str(self.data_dir), *options).stdout

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

    def logs(self) -> dict[str, str]:
        """What every process wrote so far."""
        return {path.stem: path.read_text() for path in sorted(self.layout.logs.glob("*.log"))}


# Waits for the end of the run, however it comes, and then removes the platform.
JANITOR = """
cat >/dev/null
[ -e "$2/data/settings.json" ] && "$1" -m headrace.cli down --data-dir "$2/data" --delete-data
rm -rf "$2"
"""


@pytest.fixture(scope="session")
def new_platform() -> Iterator[Callable[..., Platform]]:
    """Starts platforms with these options and variables; all are removed at the end of the run."""
    with contextlib.ExitStack() as started:

        def start(*options: str, **env: str) -> Platform:
            platform = Platform(Path(tempfile.mkdtemp(prefix="headrace-e2e-")))
            platform.env |= env
            command = ["/bin/sh", "-c", JANITOR, "janitor", sys.executable, str(platform.home)]
            janitor = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            started.enter_context(janitor)  # closes its input at the end, and waits for it
            platform.up("--listen", "127.0.0.1:0", *options)
            return platform

        yield start


@pytest.fixture(scope="session")
def platform(new_platform: Callable[..., Platform]) -> Platform:
    """Two nodes of eight simulated GPUs, shared by the run. Tests leave it running and ready."""
    return new_platform("--nodes", "2", "--gpus", "simulated:8xH100-80GB")
