"""`make test-wild`: what people bring, with the libraries themselves, on two nodes of two GPUs. Ends
with the table; 1 when anything failed.

`python -m tests.wild VENV [NAME…]` runs those whose names contain one of the words.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import yaml
from tests.wild.idioms import IDIOMS, Idiom

from headrace.client.model import ENDED
from headrace.testing import RunningPlatform, started_platform

FLEET = ("--nodes", "2", "--gpus", "simulated:2xH100-80GB")
RUN_S_MAX = 240.0
POLL_S = 0.5
LINE_LENGTH_MAX = 110


class Outcome(NamedTuple):
    """`state` is ran, failed or not run, and `why` it is not ran."""

    state: str
    why: str = ""
    ran_s: float = 0.0


def main() -> int:
    """Run what was asked for; the exit code."""
    venv, words = Path(sys.argv[1]).absolute(), [word.lower() for word in sys.argv[2:]]
    chosen = [each for each in IDIOMS if not words or any(w in each.name.lower() for w in words)]
    outcomes: dict[str, Outcome] = {}
    with started_platform(*FLEET) as platform:
        for idiom in chosen:
            outcomes[idiom.name] = outcome = _run(platform, venv, idiom)
            print(f"… {idiom.name}: {outcome.state} {outcome.why}".rstrip(), flush=True)
    width = max(map(len, outcomes), default=0)
    for name, outcome in outcomes.items():
        ran = f"{outcome.ran_s:.0f} s" if outcome.ran_s else ""
        print(f"{name:<{width}}  {outcome.state:<7}  {ran:>5}  {outcome.why}".rstrip())
    failed = sum(outcome.state == "failed" for outcome in outcomes.values())
    ran = sum(outcome.state == "ran" for outcome in outcomes.values())
    print(f"{ran} ran, {failed} failed, {len(outcomes) - ran - failed} not run")
    return 1 if failed else 0


def _run(platform: RunningPlatform, venv: Path, idiom: Idiom) -> Outcome:
    found = [str(venv / "bin" / "python"), "-c", f"import {idiom.module}"]
    if subprocess.run(found, capture_output=True, check=False).returncode:
        return Outcome("not run", f"{idiom.module} cannot be imported in {venv}")
    with tempfile.TemporaryDirectory(prefix="headrace-wild-") as folder:
        job = _submitted(platform, venv, idiom, Path(folder))
    client, until_s = platform.client(), time.monotonic() + RUN_S_MAX
    while (row := client.job(job).job).state not in ENDED:
        if time.monotonic() > until_s:
            client.cancel(job, now=True)
            break
        time.sleep(POLL_S)
    said = platform.headrace("logs", job, check=False).stdout
    lacking = [text for text, times in idiom.says.items() if said.count(text) != times]
    if row.state == "succeeded" and not lacking:
        return Outcome("ran", "", row.ran_us / 1e6)
    last = next((line for line in reversed(said.splitlines()) if "rror" in line), said[-200:])
    why = f"says {lacking} not as often as it should" if row.state == "succeeded" else row.state
    return Outcome("failed", f"{why}: {' '.join(last.split())[:LINE_LENGTH_MAX]}")


def _submitted(platform: RunningPlatform, venv: Path, idiom: Idiom, folder: Path) -> str:
    (folder / "program.py").write_text(idiom.program)
    env = {"PATH": f"{venv}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
    if idiom.script:
        (folder / "job.sh").write_text(idiom.script)
        export = ",".join(f"{name}={value}" for name, value in env.items())
        words = ("sbatch", "--parsable", f"--export={export}", f"--chdir={folder}")
        return platform.headrace(*words, str(folder / "job.sh")).stdout.strip()
    job = {"workdir": ".", **idiom.job, "env": env}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return platform.headrace("submit", str(folder / "job.yaml")).stdout.split()[0]


if __name__ == "__main__":
    sys.exit(main())
