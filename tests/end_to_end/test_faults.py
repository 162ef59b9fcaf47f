"""Everything is killed while jobs are queued, starting and running; nothing is lost or run twice.

Every attempt writes its start and end to a journal outside Headrace: what really ran is compared
with what the log says.
"""

import asyncio
import base64
import contextlib
import os
import secrets
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest
from tests.end_to_end.load import JOB, LIVE_MIN, TASKS, Asking, Load, live

from headrace.client.client import Client
from headrace.embedded import processes
from headrace.embedded.nats import Nats
from headrace.embedded.services import SERVICES
from headrace.node_agent.folders import shim_of
from headrace.verification import check_journal


class Torment:
    """Kills parts of a platform with SIGKILL, each under load."""

    def __init__(self, platform):
        self.platform = platform
        self.client = Client(platform.url, platform.token)
        self.killed_jobs = set()

    def kill_all(self):
        for name in SERVICES:
            self.under_load(lambda name=name: self.platform.kill(name))
        for fault in (
            self.a_launcher,
            lambda: self.platform.kill("n1"),
            self.a_shim,
            self.a_backend,
            lambda: self.platform.kill("postgres"),
        ):
            self.under_load(fault)

    def under_load(self, fault):
        """Do it while enough jobs are on their way; return when the platform is whole again."""
        self.platform.wait(lambda: live(self.client) >= LIVE_MIN, "load")
        before = self.last_ended()
        fault()
        self.platform.wait_ready()
        self.platform.wait(lambda: self.last_ended() != before, "the next job to end")

    def last_ended(self):
        rows = self.client.jobs(state="ended", ended=20).jobs
        return max((row.ended_at_us for row in rows), default=0)

    def a_launcher(self):
        kill(self.of_node("n2", "headrace-launch").values())

    def a_shim(self):
        """One whose worker runs: it is lost, and only it."""
        shims = {}

        def found():
            shims.update(
                (folder.name, process)
                for folder, process in self.of_node("n2", "headrace-shi").items()
                if process.pid == shim_of(folder)  # not what it has just forked
            )
            return shims

        self.platform.wait(found, "a shim")
        folder, process = next(iter(shims.items()))
        self.killed_jobs.add(folder.rsplit(".", 2)[0].replace(".", "/"))
        kill([process])

    def a_backend(self):
        postmaster = psutil.Process(self.platform.pids()["postgres"])
        services = [p for p in postmaster.children() if "headrace_" in " ".join(p.cmdline())]
        assert services
        kill(services[:1])

    @contextlib.contextmanager
    def bus_to_kill(self):
        """Gives what keeps admission from answering, and what kills the bus at once; then its store
        is lost before it is started again.
        """
        running = self.platform.processes()
        supervisor, nats, admission = (running[n] for n in ("supervisor", "nats", "admission"))
        os.kill(supervisor.pid, signal.SIGSTOP)
        try:
            yield (
                lambda: processes.send(admission, signal.SIGSTOP),
                lambda: processes.send(nats, signal.SIGKILL),
            )
            assert processes.wait_until(lambda: not processes.alive(nats), 60)
            Nats(self.platform.layout.nats).wipe()
        finally:
            processes.send(admission, signal.SIGCONT)
            os.kill(supervisor.pid, signal.SIGCONT)

    def of_node(self, node, name):
        """The node's processes of this name, by the folder they work in."""
        base = self.platform.layout.node(node)
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name().startswith(name) and base in (
                    folder := Path(process.cwd()),
                    *folder.parents,
                ):
                    found[folder] = process
        return found


def kill(found):
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
        known = processes.identify(process.pid)
        assert known is None or processes.wait_exit(known, 60)


async def test_whatever_is_killed_no_job_is_lost_and_none_runs_twice(platform):
    await storm(platform, rounds=1, requests=200)


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_the_same_holds_again_and_again_with_a_thousand_requests_in_flight(platform):
    await storm(platform, rounds=5, requests=1_000)


async def storm(platform, *, rounds, requests):
    platform.wait_ready()
    canary = f"canary-{secrets.token_hex(16)}"
    platform.headrace("secret", "set", "CANARY", "--project", "default", stdin=canary)
    check = ["sh", "-c", f'test "${{#CANARY}}" = {len(canary)} && exec sleep 0.3']
    torment = Torment(platform)
    asked = {}
    with Load(platform, JOB | {"command": check, "secrets": ["CANARY"]}) as load:
        for _ in range(rounds):
            await asyncio.to_thread(torment.kill_all)
            asking = Asking(platform, requests, JOB | {"command": ["true"]})
            with torment.bus_to_kill() as (hold_admission, kill_bus):
                await asking.begin(hold_admission)
                kill_bus()
                assert asking.in_flight > requests // 4, "most were answered before"
            asked |= await asking.answers()
            await asyncio.to_thread(platform.wait_ready)
    await asyncio.to_thread(
        platform.wait, lambda: live(torment.client) == 0, "the end of every job"
    )
    jobs = load.tasks() | set(asked.values())
    assert len(jobs) == len(load.accepted) * TASKS + len(asked), "every key is a job of its own"
    assert_all_ended_once(torment, jobs | set(load.accepted.values()))
    assert_journal_agrees(platform, torment, jobs)
    platform.verify()
    traced = [name for name, text in platform.logs().items() if "Traceback" in text]
    assert traced == []
    assert found_in(platform.data_dir, canary) == []


def assert_all_ended_once(torment, jobs):
    """Every job has one end: success, but where its shim was killed."""
    ends, bad = Counter(), {}
    for event in torment.client.events(after=0, type_prefix="job.finished"):
        ends[event.data["job"]] += 1
        if event.data["outcome"] != "succeeded":
            bad[event.data["job"]] = event.data
    assert {job: ends[job] for job in jobs if ends[job] != 1} == {}
    assert {job: data for job, data in bad.items() if job in jobs - torment.killed_jobs} == {}


def assert_journal_agrees(platform, torment, jobs):
    """Each job ran, as often as the log says, never twice at a time, on GPUs of its own."""
    lines = platform.journal.read_text().splitlines()
    assert check_journal(lines) == []
    ran = {(*line.split()[1:4],) for line in lines}
    said = {
        tuple(
            str(event.data[name]) if name != "rank" else str(event.data.get("rank", 0))
            for name in ("job", "attempt", "rank")
        )
        for event in torment.client.events(after=0, type_prefix="attempt.started")
    }
    assert {worker for worker in ran ^ said if worker[0] in jobs - torment.killed_jobs} == set()
    assert jobs <= {job for job, _, _ in ran}


def found_in(folder: Path, secret: str) -> list[str]:
    """The files below that have the secret in them: the log's own, the bus's, logs, nodes."""
    shapes = [secret.encode(), base64.b64encode(secret.encode()).rstrip(b"=")[:-1]]
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found += [str(path) for shape in shapes if shape in data]
    return found
