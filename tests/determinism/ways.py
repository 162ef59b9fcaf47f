"""The ways in which decisions are derived again, each in a process of its own.

Rule: a way is how the state is prepared and what the process is told about its machine; it never
changes what is decided.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
from tests.determinism import deriving, recording

from headrace.decider.version import installed_deciders

DIFFERENCES_TOLD_MAX = 5  # of one way; more are counted
PLAIN_PROCESSOR = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
    "OPENBLAS_CORETYPE": "Sandybridge",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2",
}


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """`prepare` is one of `deriving.WAYS`."""

    name: str
    prepare: str
    environment: dict[str, str] = {}


WAYS = (
    Way(name="one hash seed", prepare="folded", environment={"PYTHONHASHSEED": "1"}),
    Way(name="another hash seed", prepare="folded", environment={"PYTHONHASHSEED": "4242"}),
    Way(name="plain processor", prepare="folded", environment=PLAIN_PROCESSOR),
    Way(name="permuted inputs", prepare="shuffled", environment={"PYTHONHASHSEED": "7"}),
    Way(name="snapshots at random cuts", prepare="cut", environment={"PYTHONHASHSEED": "8"}),
)


def begin(way: Way, path: Path) -> subprocess.Popen[str]:
    """Start to derive the file's decisions this way."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.determinism.ways", way.prepare, str(path)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)} | way.environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def digests(process: subprocess.Popen[str]) -> list[str]:
    """What it derived, a digest for each decision. Raises `RuntimeError` when it failed."""
    told = process.communicate()[0].split("\n")[:-1]
    if process.returncode:
        raise RuntimeError(f"a way ended with {process.returncode}")
    return told


def main(prepare: str, path: str) -> None:
    """Print the digests of a file's decisions, derived this way."""
    deciders = installed_deciders()
    for seed, history in enumerate(recording.read(Path(path))):
        for digest in deriving.derive(deciders, history, prepare, seed):
            print(digest)


if __name__ == "__main__":
    main(*sys.argv[1:])
