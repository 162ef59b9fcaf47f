"""A job that is really started on this machine, as the account that jobs have here.

Rule: what only looks right is not enough. It runs in a folder of its own below the node's, under a
launcher of its own, beside an agent that may run here; nothing of it stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
from pathlib import Path

import msgspec

from headrace.bus.agents import Assignment, Launch, LogsWanted
from headrace.doctor import Check, failed, ok
from headrace.node_agent.devices.choosing import devices_of
from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.machine import AttemptKey, End, Machine, Workplace
from headrace.node_agent.machines import machine_of
from headrace.node_agent.pausing import NoDriver
from headrace.node_agent.settings import NodeSettings
from headrace.node_agent.stopping import stop_all

JOB_S_MAX = 30.0
OUTPUT_BYTES_MAX = 400
SAYS = 'id -u && exec "$0" -c "print(1)"'  # its account, and whether it has the node's interpreter
KEY = AttemptKey("doctor", 1, 0)
FIX = "mend what it names; jobs end the same way here until then"


def check_job(settings: NodeSettings) -> Check:
    """How a job starts and ends here, and as whom."""
    folder, was_there = settings.node_dir / f"doctor-{os.getpid()}", settings.node_dir.exists()
    logging.getLogger("headrace.node_agent").setLevel(logging.CRITICAL)  # the check is what is read
    try:
        folder.mkdir(mode=0o700, parents=True)
        end, said, isolation = asyncio.run(_tried(settings, folder))
    except (OSError, TimeoutError) as error:
        return failed("job", f"none can be started: {error or 'it did not end in time'}", FIX)
    finally:
        with contextlib.suppress(OSError):
            stop_all(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if not was_there:
            with contextlib.suppress(OSError):
                settings.node_dir.rmdir()
    account = said.partition("\n")[0].strip()
    if end.reason != "exited" or end.exit_code or not account.isdecimal():
        last = said.strip().rpartition("\n")[2]
        why = " · ".join(filter(None, (end.reason, end.message, last)))
        return failed("job", f"one that was started here did not run: {why}", FIX)
    return ok("job", f"one was started, ran as account {account} and ended well ({isolation})")


async def _tried(settings: NodeSettings, folder: Path) -> tuple[End, str, str]:
    """Start it and see it end: how, what it said, and how it was kept apart."""
    scratch = msgspec.structs.replace(
        settings, node="doctor", node_dir=folder, gpus="none", engine="", attempt_journal=""
    )
    enforcer = Enforcer(devices_of("none", "doctor", folder), folder)
    machine: Machine = machine_of(scratch, enforcer, NoDriver())
    changed = asyncio.Event()
    await machine.open(lambda _key: changed.set())
    try:
        assignment = Assignment(
            job=KEY.job, attempt=KEY.attempt, rank=KEY.rank, position=1, project="doctor", account=1
        )
        launch = Launch(command=("/bin/sh", "-c", SAYS, sys.executable))
        machine.start(assignment, launch, Workplace())
        async with asyncio.timeout(JOB_S_MAX):
            while (seen := machine.look(KEY)) is None or seen.end is None:
                await changed.wait()
                changed.clear()
        wanted = LogsWanted(job=KEY.job, attempt=KEY.attempt, rank=KEY.rank)
        said = machine.read_logs(wanted).data[:OUTPUT_BYTES_MAX].decode(errors="replace")
        return seen.end, said, seen.isolation
    finally:
        await machine.close()
