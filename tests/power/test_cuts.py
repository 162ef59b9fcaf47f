"""The power fails at moments that matter: `up` works again, and every job that was accepted is there.

Accepted is what was answered with a position. What ran is read from a file on another disk, in which the
jobs themselves write who they are.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.open_folders import open_folder
from tests.power.disk import Disk, disk

from headrace.client import Client
from headrace.client.errors import ClientError
from headrace.embedded import platform
from headrace.embedded.files import read_json
from headrace.embedded.layout import Layout
from headrace.verification import check_journal

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mkfs.ext4"), reason="needs root"),
    pytest.mark.timeout(600),
]
READY_S_MAX = 120.0
POLL_S = 0.02
TASKS = 10
WORKS = """
import os, sys, time
identity = [os.environ["HEADRACE_" + name] for name in ("JOB_ID", "ATTEMPT", "NODE_RANK")]
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
def say(what):
    line = " ".join([what, *identity, str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)), "-"])
    os.write(file, line.encode() + b"\\n")
say("start")
time.sleep(0.3)
say("end")
"""


class Machine:
    """A platform on a disk that can be cut."""

    def __init__(self, of: Disk, folder: Path) -> None:
        self.disk, self.layout = of, Layout(of.path / "root" / "data")
        self.ran = folder / "ran"
        self.ran.touch()
        self.ran.chmod(0o666)
        self.accepted: dict[str, str] = {}  # key to job
        self._said = folder / "said"
        self._env = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith("HEADRACE_")
            },
            "XDG_CONFIG_HOME": str(of.path / "root" / "config"),
            "HEADRACE_NODE_SHOWN": str(folder),
        }
        self._ups = 0
        self._up: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start it, on whatever is there."""
        options = ["--nodes", "1", "--gpus", "simulated:8xH100-80GB", "--listen", "127.0.0.1:0"]
        where = ["up", "--data-dir", str(self.layout.data_dir), *options]
        with self._said.open("ab") as said:
            self._up = subprocess.Popen(
                self.disk.run(sys.executable, "-m", "headrace.cli", *where),
                env=self._env, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip

    def until(self, is_so) -> None:
        deadline_s = time.monotonic() + READY_S_MAX
        while not is_so():
            assert self._up is None or self._up.poll() is None, self._said.read_text()[-2000:]
            assert time.monotonic() < deadline_s, self._said.read_text()[-2000:]
            time.sleep(POLL_S)

    def ready(self) -> None:
        """Until it says so."""
        self._ups += 1
        self.until(lambda: self._said.read_text().count("Headrace is up") == self._ups)

    def client(self) -> Client:
        token = (self.layout.secrets / "admin.token").read_text()
        return Client(self._state().url, token, "default")

    def submit(self, client: Client, key: str) -> None:
        command = [sys.executable, "-I", "-S", "-c", WORKS, str(self.ran)]
        job = {"name": "load", "command": command, "resources": {"gpus": 1}}
        job |= {"array": f"0..{TASKS - 1}", "retry": {"on": ["node-lost"], "attempts": 20}}
        self.accepted[key] = client.submit(job, key=key).job

    @contextlib.contextmanager
    def submitting(self) -> Iterator[None]:
        """Jobs go on coming, from a thread."""
        stopped, client = threading.Event(), self.client()

        def run() -> None:
            while not stopped.is_set():
                with contextlib.suppress(ClientError):
                    self.submit(client, uuid.uuid4().hex)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def cut(self) -> None:
        """The power fails: the disk first, then all that ran on it."""
        self.disk.cut()
        self.power_off()
        self.disk.back()

    def power_off(self) -> None:
        marker = str(self.disk.path).encode()
        while found := [pid for pid in _pids() if _is_marked(pid, marker)]:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S)
        if self._up is not None:
            self._up.wait()
        self._up = None

    def check(self) -> None:
        """All that was accepted is there, comes to its end, and ran no attempt twice."""
        with contextlib.closing(self.client()) as client:
            tasks = [f"{job}/{n}" for job in self.accepted.values() for n in range(TASKS)]
            for task in tasks:
                self.until(lambda task=task: client.job(task).job.state in ("succeeded", "failed"))
                assert client.job(task).job.state == "succeeded", client.job(task).job
            for key, job in self.accepted.items():
                self.submit(client, key)
                assert self.accepted[key] == job, "the key is known"
            self.submit(client, "after the cut")
        assert check_journal(self.ran.read_text().splitlines()) == []

    def _state(self) -> platform.State:
        return read_json(self.layout.state, platform.State)


def _pids() -> list[int]:
    return [
        int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()
    ]


def _is_marked(pid: int, marker: bytes) -> bool:
    try:
        said = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        where = os.readlink(f"/proc/{pid}/cwd").encode()
    except OSError:
        return False
    alive = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return alive and (marker in said or where.startswith(marker))


@pytest.fixture
def machine() -> Iterator[Machine]:
    with open_folder() as folder, disk(folder) as made:
        on_it = Machine(made, folder)
        try:
            yield on_it
        finally:
            on_it.power_off()


def test_the_power_fails_right_after_the_first_start_was_ready(machine: Machine) -> None:
    machine.begin()
    machine.ready()
    with contextlib.closing(machine.client()) as client:
        machine.submit(client, "first")
    machine.cut()
    machine.begin()
    machine.ready()
    machine.check()


@pytest.mark.chaos
@pytest.mark.parametrize("after_s", [1, 5, 25])
def test_the_power_fails_some_time_after_the_first_start(machine: Machine, after_s: int) -> None:
    machine.begin()
    machine.ready()
    with contextlib.closing(machine.client()) as client:
        machine.submit(client, "first")
    time.sleep(after_s)  # what the kernel has written by itself meanwhile, is the test
    machine.cut()
    machine.begin()
    machine.ready()
    machine.check()


@pytest.mark.chaos
@pytest.mark.parametrize("made", ["data.new/base", "data/PG_VERSION", "data/headrace.conf"])
def test_the_power_fails_while_the_database_is_made(machine: Machine, made: str) -> None:
    machine.begin()
    machine.until(
        lambda: (
            any(machine.disk.path.glob(f"*/*/{made}"))
            or any(machine.disk.path.glob(f"*/*/*/{made}"))
        )
    )
    machine.cut()
    machine.begin()
    machine.ready()
    machine.check()


@pytest.mark.chaos
def test_the_power_fails_again_and_again_while_jobs_are_submitted(machine: Machine) -> None:
    machine.begin()
    machine.ready()
    for after_s in (0.3, 1.0, 2.0):
        with machine.submitting():
            time.sleep(after_s)
            machine.disk.cut()
        machine.power_off()
        machine.disk.back()
        machine.begin()
        machine.ready()
    machine.check()
