"""`python -m headrace.node_agent.bench [STARTS]`: what starting and holding workers costs here.

Prints starts per second, CPU per start and memory, over a real launcher in a folder of its own, with
the isolation that a joined node has here (its name is printed), and what that adds to a start.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.bus.agents import Assignment, Launch
from headrace.node_agent import folders
from headrace.node_agent.isolation import views
from headrace.node_agent.isolation.cgroups import name_of, probe, probe_loopback, remove_base
from headrace.node_agent.machine import AttemptKey, Workplace
from headrace.node_agent.process_machine import ProcessMachine
from headrace.node_agent.start_spec import MachineSettings
from headrace.node_agent.stopping import stop_all
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.protocol import LAUNCHER_LOCK

NODES = "/var/lib"  # where a joined node of root's has its folder
STARTS = 500
AT_ONCE = 64  # workers under way at any moment
HELD = 200  # sleeping workers whose memory is measured, and whom another agent adopts
ALONE = 100  # starts one after the other

FLOOR_STARTS = 200
FILES = 8  # an attempt's folder and what is in it, all told

_FLOOR = """
import os, sys
for _ in range(int(sys.argv[1])):
    if (pid := os.fork()) == 0:
        if (pid := os.fork()) == 0:
            os.execlp("true", "true")
        os.waitpid(pid, 0)
        os._exit(0)
    os.waitpid(pid, 0)
print(sum(os.times()[:4]) / int(sys.argv[1]) * 1000)
"""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


async def measure(node_dir: Path, starts: int) -> None:
    """Run every measurement and print its line."""
    name = name_of(node_dir)
    isolation = probe(name)
    loopback = probe_loopback(name, isolation)
    isolated = MachineSettings(
        node_dir=node_dir / "isolated",
        isolation=isolation,
        views=views.probe(node_dir, ()),
        loopback=loopback,
    )
    bare = MachineSettings(node_dir=node_dir / "bare")
    try:
        for settings in (isolated, bare):
            settings.node_dir.mkdir()
            settings.node_dir.chmod(0o711)  # without views, jobs' accounts pass through it
        first = await _starts(isolated, starts)
        await _held(isolated)
        other = await _starts(bare, starts)
    finally:
        for settings in (isolated, bare):
            stop_all(settings.node_dir)  # a launcher is in a group, too
        remove_base(name)
    floor_ms = _floor_ms()
    print(f"of which {first.cpu_ms - other.cpu_ms:.2f} ms of CPU, and {first.running_ms - other.running_ms:.2f} "
          f"ms until it runs, are for isolation")  # fmt: skip
    print(f"two forks of a bare interpreter and one exec take {floor_ms:.2f} ms of CPU here, "
          f"{FILES} files on this disk {_files_ms(node_dir / 'disk'):.2f} ms")  # fmt: skip


@dataclass(frozen=True)
class _Cost:
    """Of one start: CPU of all that has a part in it, and time until the worker runs."""

    cpu_ms: float
    running_ms: float


async def _starts(settings: MachineSettings, starts: int) -> _Cost:
    """Start workers that end at once, many at a time and one by one."""
    machine, ended = ProcessMachine(settings), _Ends()
    await machine.open(lambda key: ended.look(machine, key))
    await _run(machine, ended, "warm", 20, 1)
    print(f"isolation: {ended.recorded}")
    launcher = folders.holder_of(settings.node_dir / LAUNCHER_LOCK)
    cpu_s, own_s, began_s = _cpu_s(launcher), _own_cpu_s(), time.perf_counter()
    await _run(machine, ended, "many", starts, AT_ONCE)
    took_s = time.perf_counter() - began_s
    cpu_ms = (_cpu_s(launcher) - cpu_s) / starts * 1000
    own_ms = (_own_cpu_s() - own_s) / starts * 1000
    print(f"  starts/s {starts / took_s:.0f}   ({starts} × true, {AT_ONCE} at once)")
    print(f"  cpu per start {cpu_ms:.2f} ms launcher+shim+worker, {own_ms:.2f} ms agent's machine")
    ended.running_s.clear()
    began_s = time.perf_counter()
    await _run(machine, ended, "alone", ALONE, 1)
    took_ms = (time.perf_counter() - began_s) / ALONE * 1000
    running_ms = statistics.median(ended.running_s) * 1000
    print(
        f"  start to running {running_ms:.2f} ms (median), to end {took_ms:.2f} ms, one at a time"
    )
    await machine.close()
    return _Cost(cpu_ms + own_ms, running_ms)


def _floor_ms() -> float:
    """CPU of what every supervisor with a process of its own per worker spends, in an interpreter
    that has nothing else in memory.
    """
    program = (sys.executable, "-I", "-S", "-c", _FLOOR, str(FLOOR_STARTS))
    return float(subprocess.run(program, check=True, capture_output=True).stdout)


def _files_ms(folder: Path) -> float:
    """CPU of making as many files as a start does. Some file systems look for room for long: ext4
    without a journal does, for minutes after many files were deleted.
    """
    folder.mkdir()
    before_s = _own_cpu_s()
    for number in range(FLOOR_STARTS * FILES):
        kernel.write(f"{folder}/{number}", b"")
    return (_own_cpu_s() - before_s) / FLOOR_STARTS * 1000


async def _run(machine: ProcessMachine, ended: _Ends, name: str, starts: int, at_once: int) -> None:
    for number in range(starts):
        await ended.until(at_once - 1)
        ended.waiting += 1
        ended.began_s = time.perf_counter()
        _start(machine, f"{name}-{number}", "true")
    await ended.until(0)


async def _held(settings: MachineSettings) -> None:
    """What workers that run cost, and what the next agent does before it has found them all."""
    machine, ended = ProcessMachine(settings), _Ends()
    await machine.open(lambda key: ended.look(machine, key))
    keys = [_start(machine, f"held-{number}", "sleep", "1000") for number in range(HELD)]
    await ended.until_running(HELD)
    launcher = folders.holder_of(settings.node_dir / LAUNCHER_LOCK)
    shims = [folders.shim_of(settings.node_dir / folders.name_of(key)) for key in keys]
    inits = [pid for pid in tree.children(shims) if kernel.name_of(pid) == "headrace-init"]
    attempt_mb = sum(map(pss_kb, [*shims, *inits])) / HELD / 1000
    print(f"  memory of an attempt {attempt_mb:.2f} MB (PSS, {HELD} held), of the launcher "
          f"{pss_kb(launcher) / 1000:.1f} MB")  # fmt: skip
    await machine.close()
    await _adoption(settings, keys)
    stop_all(settings.node_dir)


async def _adoption(settings: MachineSettings, keys: list[AttemptKey]) -> None:
    machine = ProcessMachine(settings)
    cpu_s, began_s = _own_cpu_s(), time.perf_counter()
    await machine.open(lambda _key: None)
    seen = [machine.look(key) for key in keys]
    took_ms, cpu_ms = (time.perf_counter() - began_s) * 1000, (_own_cpu_s() - cpu_s) * 1000
    assert all(found is not None and found.phase == "running" for found in seen)
    print(f"  adoption of {len(keys)} running {took_ms:.0f} ms, {cpu_ms:.0f} ms of CPU")
    await machine.close()


def _start(machine: ProcessMachine, job: str, *command: str) -> AttemptKey:
    machine.start(
        Assignment(
            job=job, attempt=1, rank=0, position=1, project="bench", user="bench", account=1
        ),
        Launch(command=command),
        Workplace(),
    )
    return AttemptKey(job, 1, 0)


class _Ends:
    """Counts workers under way, and how long each took to run."""

    def __init__(self) -> None:
        self.waiting = self.running = 0
        self.running_s: list[float] = []
        self.recorded = ""
        self.began_s = 0.0  # the latest
        self._changed = asyncio.Event()

    def look(self, machine: ProcessMachine, key: AttemptKey) -> None:
        seen = machine.look(key)
        self._changed.set()
        if seen is not None and seen.end is None:
            self.running += 1
            self.running_s.append(time.perf_counter() - self.began_s)
            self.recorded = seen.isolation
        elif seen is not None and seen.end is not None:
            assert seen.end.exit_code == 0, seen.end.message
            machine.forget(key)
            self.waiting -= 1

    async def until(self, at_most: int) -> None:
        while self.waiting > at_most:
            self._changed.clear()
            await self._changed.wait()

    async def until_running(self, at_least: int) -> None:
        while self.running < at_least:
            self._changed.clear()
            await self._changed.wait()


def _cpu_s(pid: int) -> float:
    """CPU of the process and of everything it has reaped, with what those have reaped."""
    return sum(int(field) for field in kernel.stat(pid)[11:15]) / _TICKS_PER_S


def _own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def pss_kb(pid: int) -> int:
    """The memory that is this process's own or its part of what it shares."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    """Measure, and leave nothing behind."""
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else STARTS
    above = NODES if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=above) as folder:
        os.chmod(folder, 0o711)  # noqa: S103  (jobs' accounts pass through it)
        asyncio.run(measure(Path(folder).resolve(), starts))


if __name__ == "__main__":
    main()
