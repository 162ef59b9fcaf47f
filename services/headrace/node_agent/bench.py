"""`python -m headrace.node_agent.bench [STARTS]`: what starting and holding workers costs here.

Prints starts per second, CPU per start and memory, over a real launcher in a folder of its own.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headrace.bus.agents import Assignment, Launch
from headrace.node_agent import folders
from headrace.node_agent.isolation import views
from headrace.node_agent.machine import AttemptKey, Workplace
from headrace.node_agent.process_machine import ProcessMachine
from headrace.node_agent.start_spec import MachineSettings
from headrace.node_agent.stopping import stop_all
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.protocol import LAUNCHER_LOCK

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
    settings = MachineSettings(node_dir=node_dir, views=views.probe(node_dir, ()))
    print(f"kept apart by processes{settings.views.recorded if settings.views else ''}")
    machine, ended = ProcessMachine(settings), _Ends()
    await machine.open(lambda key: ended.look(machine, key))
    await _run(machine, ended, "warm", 20, 1)
    launcher = folders.holder_of(node_dir / LAUNCHER_LOCK)
    cpu_s, own_s, began_s = _cpu_s(launcher), _own_cpu_s(), time.perf_counter()
    await _run(machine, ended, "many", starts, AT_ONCE)
    took_s = time.perf_counter() - began_s
    cpu_ms = (_cpu_s(launcher) - cpu_s) / starts * 1000
    own_ms = (_own_cpu_s() - own_s) / starts * 1000
    print(f"starts/s {starts / took_s:.0f}   ({starts} × true, {AT_ONCE} at once)")
    print(f"cpu per start {cpu_ms:.2f} ms launcher+shim+worker, {own_ms:.2f} ms agent's machine")
    floor_ms = _floor_ms()
    print(f"which is {(cpu_ms + own_ms) / floor_ms:.1f} × two forks of a bare interpreter and one exec "
          f"({floor_ms:.2f} ms here)")  # fmt: skip
    print(
        f"of which {_files_ms(node_dir / 'disk'):.2f} ms are for the {FILES} files of a start on this disk"
    )
    began_s = time.perf_counter()
    await _run(machine, ended, "alone", ALONE, 1)
    print(f"start to end {(time.perf_counter() - began_s) / ALONE * 1000:.2f} ms, one at a time")
    keys = await _memory(machine, ended, node_dir, launcher)
    await machine.close()
    await _adoption(node_dir, keys)


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
        _start(machine, f"{name}-{number}", "true")
    await ended.until(0)


async def _adoption(node_dir: Path, keys: list[AttemptKey]) -> None:
    """What the next agent does before it has found all that runs, and watches it."""
    machine = ProcessMachine(MachineSettings(node_dir=node_dir))
    cpu_s, began_s = _own_cpu_s(), time.perf_counter()
    await machine.open(lambda _key: None)
    seen = [machine.look(key) for key in keys]
    took_ms, cpu_ms = (time.perf_counter() - began_s) * 1000, (_own_cpu_s() - cpu_s) * 1000
    assert all(found is not None and found.phase == "running" for found in seen)
    print(f"adoption of {len(keys)} running {took_ms:.0f} ms, {cpu_ms:.0f} ms of CPU")
    await machine.close()


async def _memory(
    machine: ProcessMachine, ended: _Ends, node_dir: Path, launcher: int
) -> list[AttemptKey]:
    ended.running = 0
    keys = [_start(machine, f"held-{number}", "sleep", "1000") for number in range(HELD)]
    await ended.until_running(HELD)
    shims = [folders.shim_of(node_dir / folders.name_of(key)) for key in keys]
    inits = [pid for pid in tree.children(shims) if kernel.name_of(pid) == "headrace-init"]
    shim_kb = sum(map(pss_kb, shims)) / HELD
    init_kb = sum(map(pss_kb, inits)) / HELD
    print(f"memory (PSS, {HELD} held) shim {shim_kb / 1000:.2f} MB   init {init_kb / 1000:.2f} MB   "
          f"launcher {pss_kb(launcher) / 1000:.1f} MB")  # fmt: skip
    return keys


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
    """Counts workers under way."""

    def __init__(self) -> None:
        self.waiting = self.running = 0
        self._changed = asyncio.Event()

    def look(self, machine: ProcessMachine, key: AttemptKey) -> None:
        seen = machine.look(key)
        self._changed.set()
        if seen is not None and seen.end is None:
            self.running += 1
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
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        try:
            asyncio.run(measure(Path(folder).resolve(), starts))
        finally:
            stop_all(Path(folder))


if __name__ == "__main__":
    main()
