"""Derives decisions in many ways and compares them: `python -m tests.determinism`.

Rule: what is derived is compared with what was recorded, decision by decision; one difference is a
failure. Histories in which nobody is evicted prove too little, and fail too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.determinism import recording
from tests.determinism.deriving import digest_of
from tests.determinism.ways import DIFFERENCES_TOLD_MAX, WAYS, begin, digests

from headrace.store.interface import Stored

DECISIONS_MIN = 10_000
EVICTED = "gang.evicted.v1"


def main(arguments: list[str]) -> int:
    """0 when every way led to the decisions that were recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.determinism", description=__doc__)
    parser.add_argument("--decisions", type=int, default=DECISIONS_MIN, help="at least so many")
    chosen = parser.parse_args(arguments)
    began_s = time.perf_counter()
    histories = recording.record(chosen.decisions)
    recorded = [stored for history in histories for stored in recording.decided(history)]
    kinds = Counter(stored.type for stored in recorded)
    for kind, count in sorted(kinds.items()):
        print(f"{kind:32} {count:>7}", flush=True)
    took_s = time.perf_counter() - began_s
    print(f"{len(histories)} histories recorded in {took_s:.1f} s\n")
    with tempfile.TemporaryDirectory(prefix="headrace-determinism-") as folder:
        path = Path(folder) / "histories"
        recording.write(path, histories)
        differences = sum(_compared(path, recorded))
    print(f"{len(recorded)} decisions, {len(WAYS)} ways, {differences} differences")
    return 1 if differences or not kinds[EVICTED] else 0


def _compared(path: Path, recorded: list[Stored]) -> list[int]:
    """How many decisions differ, by way."""
    expected = [digest_of(stored) for stored in recorded]
    counts = []
    print(f"{'way':28} {'decisions':>9} {'different':>9} {'seconds':>8}")
    for way in WAYS:
        began_s = time.perf_counter()
        derived = digests(begin(way, path))
        took_s = time.perf_counter() - began_s
        pairs = zip(recorded, expected, derived, strict=True)
        different = [stored for stored, one, other in pairs if one != other]
        print(f"{way.name:28} {len(derived):>9} {len(different):>9} {took_s:>8.1f}", flush=True)
        for stored in different[:DIFFERENCES_TOLD_MAX]:
            print(f"  DIFFERENT {stored.type} at {stored.position}: {stored.data.decode()}")
        counts.append(len(different))
    return counts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
