"""Every process is killed at once, again and again, under load: no accepted job is lost, none is run twice.

What really ran is read from a file outside Headrace, in which the jobs themselves write who they are.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from tests.end_to_end.load import Load, live

from headrace.client import Client, ClientError
from headrace.verification import check_journal

ROUNDS = int(os.environ.get("HEADRACE_CHAOS_ROUNDS", "20"))
SEED = int(os.environ.get("HEADRACE_CHAOS_SEED", "2"))
ROUNDS_S_MAX = float(os.environ.get("HEADRACE_CHAOS_S_MAX", "inf"))  # no round begins after that
ROUND_S_MAX = 60.0
UNTIL_CUT_S_MAX = 1.5  # of load, before everything is killed
SAID = ("attempt", "reason", "exit_code", "message", "outcome", "rule", "node")
LOG_BYTES_MAX = 2_000  # of each attempt of a job that failed
WORKS = """
import os, sys, time
identity = [os.environ["HEADRACE_" + name] for name in ("JOB_ID", "ATTEMPT", "NODE_RANK")]
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
def say(what):
    line = " ".join([what, *identity, str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)), "-"])
    os.write(file, line.encode() + b"\\n")
    os.fsync(file)
say("start")
time.sleep(0.3)
say("end")
"""


class Ran(NamedTuple):
    """What the jobs wrote of themselves."""

    lines: list[str]

    def doubled(self) -> list[str]:
        """Workers that began more than once, and attempts of a job beside each other."""
        return [str(violation) for violation in check_journal(self.lines)]

    def jobs(self) -> set[str]:
        return {line.split()[1] for line in self.lines}

    def cut_at_their_end(self) -> list[str]:
        """Attempts that began after one of their job had written its last line: its supervisor was
        killed before it could write that down.
        """
        done: set[str] = set()
        found = []
        for line in self.lines:
            what, job, attempt, *_ = line.split()
            if what == "start" and job in done:
                found.append(f"{job} attempt {attempt}")
            elif what == "end":
                done.add(job)
        return found


def test_everything_killed_at_once_loses_no_job_and_runs_none_twice(new_platform, tmp_path):
    killed_together(new_platform, tmp_path, rounds=2, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(ROUNDS * ROUND_S_MAX)
def test_everything_killed_at_once_again_and_again(new_platform, tmp_path):
    killed_together(new_platform, tmp_path, rounds=ROUNDS, seed=SEED)


def killed_together(new_platform, folder: Path, *, rounds: int, seed: int) -> None:
    platform = new_platform("--nodes", "1", "--gpus", "simulated:16xH100-80GB")
    try:
        go_on_under_kills(platform, folder, rounds=rounds, seed=seed)
    except BaseException:  # the platform goes with its folder, and what it said with it
        kept = Path(tempfile.mkdtemp(prefix="headrace-all-killed-"))
        for log in (*platform.layout.logs.glob("*.log"), *platform.layout.nodes.glob("*/*.log")):
            shutil.copyfile(log, kept / f"{log.parent.name}-{log.name}")
        print(f"what it logged is in {kept}")
        raise


def go_on_under_kills(platform, folder: Path, *, rounds: int, seed: int) -> None:
    journal = folder / "ran"
    journal.touch()
    journal.chmod(0o666)
    command = [sys.executable, "-I", "-S", "-c", WORKS, str(journal)]
    job = {"name": "load", "command": command, "resources": {"gpus": 1}}
    job["retry"] = {"on": ["node-lost"], "attempts": 100}  # each round takes from whoever runs
    url, chance = platform.url, random.Random(seed)
    took = Counter[str]()
    began_s = time.monotonic()
    with Load(platform, job) as load:
        for number in range(rounds):
            if time.monotonic() - began_s > ROUNDS_S_MAX:
                rounds = number
                break
            with timed(took, "until jobs run"):
                wait_for_load(platform, journal, load)
            time.sleep(chance.random() * UNTIL_CUT_S_MAX)  # when it comes, is the test
            with timed(took, "until all are killed"):
                count = kill_everything(platform, chance)
            with timed(took, "until it is up"):
                platform.up("--listen", url.partition("//")[2])
            doubled = Ran(journal.read_text().splitlines()).doubled()
            assert doubled == [], f"round {number}, {count} killed"
    platform.wait_ready()
    with contextlib.closing(platform.client()) as client:
        platform.wait(lambda: live(client) == 0, "the end of every job")
        ended, bad = Counter[str](), set[str]()
        for event in client.events(after=0, type_prefix="job.finished"):
            ended[event.data["job"]] += 1
            if event.data["outcome"] != "succeeded":
                bad.add(event.data["job"])
        stories = [story(client, job) for job in sorted(bad)]
    ran = Ran(journal.read_text().splitlines())
    jobs = load.tasks()
    if rounds:
        print({what: f"{ms / rounds / 1_000:.1f} s a round" for what, ms in took.items()})
    print(
        f"{rounds} rounds in {time.monotonic() - began_s:.0f} s: {len(jobs)} jobs, {len(ran.lines)} lines,",
        f"{len([1 for job in jobs if ended[job] != 1 or job in bad])} lost, {len(ran.doubled())} doubled,",
        f"{len(ran.cut_at_their_end())} killed between their last line and the record of their end",
    )
    assert {job: ended[job] for job in jobs if ended[job] != 1} == {}, "lost"
    assert not bad, "\n".join([f"{len(bad)} jobs did not succeed", *stories])
    assert jobs - ran.jobs() == set(), "never ran"
    assert ran.doubled() == []
    assert check_journal(platform.journal.read_text().splitlines()) == []
    platform.verify()


def story(client: Client, job: str) -> str:
    """What happened to a job, an event a line, and the last lines that its attempts wrote."""
    lines = [f"--- {job}"]
    for event in client.events(after=0, job=job):
        said = {name: event.data[name] for name in SAID if event.data.get(name) not in (None, "")}
        lines.append(f"{event.position} {event.at_us} {event.type} {said}")
    with contextlib.suppress(ClientError):
        for piece in client.logs(job, tail_bytes=LOG_BYTES_MAX):
            lines += [f"    attempt {piece.attempt}: {line}" for line in piece.text.splitlines()]
    return "\n".join(lines)


@contextlib.contextmanager
def timed(took: Counter[str], what: str) -> Iterator[None]:
    began_s = time.monotonic()
    yield
    took[what] += round((time.monotonic() - began_s) * 1_000)


def wait_for_load(platform, journal: Path, load: Load) -> None:
    """Until jobs run again since the last time."""
    size = journal.stat().st_size

    def runs() -> bool:
        load.check()
        return journal.stat().st_size > size + 1_000

    try:
        platform.wait(runs, "jobs run")
    except AssertionError:
        print(platform.headrace("ps", check=False).stdout)
        raise


def kill_everything(platform, chance: random.Random) -> int:
    """SIGKILL all that belongs to the platform, in any order, in every second round its workers too. How
    many there were.
    """
    with_workers, killed = chance.random() < 0.5, set()
    while found := [pid for pid in of_platform(platform, with_workers) if pid not in killed]:
        chance.shuffle(found)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
    return len(killed)


def of_platform(platform, with_workers: bool) -> list[int]:
    """The living processes that were started with anything of this platform."""
    marker, found = str(platform.home), []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            environ = Path(f"/proc/{process.pid}/environ").read_bytes()
            title = process.cmdline()
            if marker.encode() not in environ and not any(marker in word for word in title):
                continue
            if "janitor" not in title:  # the fixture's own
                is_worker = b"HEADRACE_ATTEMPT_KEY=" in environ
                if with_workers or not is_worker:
                    found.append(process.pid)
    return found
