"""Run the scheduling core through scenarios: `python -m tests.conformance CASES`.

Prints a line per failed case, a table by tier and group and, as its last line, how many passed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.matching import failures_of
from tests.conformance.units import fair_share_failures, reclaim_failures

Counts = dict[tuple[str, str], list[int]]  # by group and tier: passed, failed


def main() -> int:
    """Run what the arguments name; 0 when nothing failed."""
    parser = argparse.ArgumentParser(prog="tests.conformance", description=__doc__)
    parser.add_argument("cases", type=Path, help="cases.json")
    parser.add_argument("--fairshare", type=Path, help="default: fairshare.json beside it")
    parser.add_argument("--reclaim", type=Path, help="default: reclaim_rules.json beside it")
    parser.add_argument("--only", default="", help="only cases whose id contains this")
    given = parser.parse_args()
    if not given.cases.is_file():
        print(f"no scenarios at {given.cases}: nothing was measured", file=sys.stderr)
        return 2
    counts: Counts = {}
    _run(given.cases, failures_of, counts, given.only)
    for path, name, check in (
        (given.fairshare, "fairshare.json", fair_share_failures),
        (given.reclaim, "reclaim_rules.json", reclaim_failures),
    ):
        found = path or given.cases.with_name(name)
        if found.is_file():
            _run(found, check, counts, given.only)
        else:
            print(f"no {name}: not measured", file=sys.stderr)
    _print_table(counts)
    passed, failed = (sum(count[i] for count in counts.values()) for i in (0, 1))
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


def _run(
    path: Path, check: Callable[[dict[str, Any]], list[str]], counts: Counts, only: str
) -> None:
    for case in json.loads(path.read_text())["cases"]:
        name = case.get("id", case["name"])
        if only not in name or not case.get("faithful", True):
            continue
        failures = check(case)
        key = (case.get("group", path.stem), f"tier {case['tier']}" if "tier" in case else "unit")
        counts.setdefault(key, [0, 0])[bool(failures)] += 1
        if failures:
            print(f"FAILED {key[1]} {name} ({case['name']}): {'; '.join(failures)}")


def _print_table(counts: Counts) -> None:
    tiers = sorted({tier for _, tier in counts})
    rows = [*sorted({group for group, _ in counts}), "all"]
    print(f"{'':36}" + "".join(f"{tier:>16}" for tier in tiers))
    for row in rows:
        cells = []
        for tier in tiers:
            mine = [c for (g, t), c in counts.items() if t == tier and row in (g, "all")]
            passed, every = sum(c[0] for c in mine), sum(sum(c) for c in mine)
            cells.append(f"{passed}/{every} {100 * passed // every:3d} %" if every else "")
        print(f"{row:36}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
