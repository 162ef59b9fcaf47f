"""A folder of 2,000 files and 20 MB that travels with a job: `make bench-code`.

Rule: a start is measured as its user sees it, `headrace run … -- true` from the first byte to the
last, beside the same without a folder; and as the processor time that it costs, which a busy machine
does not change.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from tests.bench.printing import facts, row
from tests.end_to_end.conftest import Platform

FILES, FILE_BYTES = 2_000, 10_000
RUNS = 7
FIRSTS = 5
PROCESSES = ("gateway", "n1")
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the figures."""
    print(facts())
    platform = Platform(Path(tempfile.mkdtemp(prefix="headrace-bench-")))
    platform.env["XDG_CACHE_HOME"] = str(platform.home / "cache")
    platform.up("--listen", "127.0.0.1:0", "--nodes", "1", "--gpus", "simulated:8xH100-80GB")
    try:
        platform.wait_ready()
        _measure(platform)
    finally:
        platform.down("--delete-data")
        shutil.rmtree(platform.home)


def _measure(platform: Platform) -> None:
    folders = [_folder(platform.home / f"folder{number}") for number in range(FIRSTS)]
    time.sleep(1.0)  # what was written just now is hashed again
    _run(platform)
    plain = [_run(platform) for _ in range(RUNS)]
    first, again = [], []
    for number, folder in enumerate(folders, 1):
        first.append(_run(platform, folder))
        _wait_for_spare(platform, number)
    for _ in range(RUNS):
        again.append(_run(platform, folders[-1]))
        _wait_for_spare(platform, FIRSTS)
    wall_s, cpu_s = _medians(plain)
    used = f"{cpu_s:.3f} s of processor time, median of {RUNS}"
    row("a run without a folder", f"{wall_s:.3f} s", used)
    for name, runs, target in (
        ("first start with a folder, over that", first, "≤ 1.5 s"),
        ("unchanged again, over that", again, "≤ 0.05 s"),
    ):
        took_s, used_s = _medians(runs)
        used = f"{used_s - cpu_s:+.3f} s of processor time, median of {len(runs)}"
        row(name, f"{took_s - wall_s:+.3f} s", f"{target}; {used}")
    row(
        "2,000 such files, made by a plain loop on this disk",
        f"{_plain_s(platform.home):.3f} s",
        "",
    )


def _medians(runs: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


def _plain_s(home: Path) -> float:
    """Processor time; a first start makes each file twice. Some file systems look for room for long:
    ext4 without a journal does, for minutes after many files were deleted.
    """
    folder, content = home / "plain", os.urandom(FILE_BYTES)
    folder.mkdir()
    began_s = time.process_time()
    for number in range(FILES):
        (folder / str(number)).write_bytes(content)
    return time.process_time() - began_s


def _wait_for_spare(platform: Platform, folders: int) -> None:
    """Nothing is measured while the next copy of a folder is being laid ahead."""
    platform.wait(lambda: len(_spares(platform)) == folders, "the next copy, laid ahead")


def _spares(platform: Platform) -> list[Path]:
    spares = platform.layout.node("n1") / "bundles" / "default" / "spares"
    return [path for path in spares.glob("*") if not path.name.startswith(".")]


def _folder(folder: Path) -> Path:
    for number in range(FILES):
        path = folder / f"package{number % 40}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(FILE_BYTES))
    return folder


def _run(platform: Platform, folder: Path | None = None) -> tuple[float, float]:
    """Seconds from start to end, and of processor time: of the client, the gateway and the node."""
    words = ["--workdir", str(folder)] if folder is not None else []
    pids = [platform.pids()[name] for name in PROCESSES]
    before_s, began_s = _cpu_s(pids), time.monotonic()
    platform.headrace("run", *words, "--name", "bench", "--", "true")
    return time.monotonic() - began_s, _cpu_s(pids) - before_s


def _cpu_s(pids: list[int]) -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = children.ru_utime + children.ru_stime
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += (int(fields[11]) + int(fields[12])) / TICKS
    return used


if __name__ == "__main__":
    main()
