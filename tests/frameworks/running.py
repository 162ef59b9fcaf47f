"""Runs one example on a platform as a user does, and reads what it says of itself."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.frameworks.table import Case

from headrace.client.model import ENDED
from headrace.testing import RunningPlatform

ROOT = Path(__file__).parents[2]
RUN_S_MAX = 900.0  # DeepSpeed compiles its operators at its first start
POLL_S = 0.5
LINES_SHOWN = 12  # of a job that failed

_TOLD = re.compile(r"rror|xception|  File ")  # what a traceback consists of
_DIFFERENCE = re.compile(r"difference ([0-9][0-9.e+-]*)")


class Outcome(NamedTuple):
    """`state` is ran, failed or not run; `check` the numeric one, or why there is none."""

    state: str
    check: str
    where: str = ""
    ran_s: float = 0.0


class Examples:
    """Examples on one platform, with the frameworks of one environment."""

    def __init__(self, platform: RunningPlatform, venv: Path) -> None:
        self.platform, self._venv = platform, venv
        self.env = {
            "PATH": f"{venv}/bin:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT / "libs"),  # headrace.client, as `pip install headrace` has it
        }

    def run(self, case: Case) -> Outcome:
        """Run the case to its end, or say why not."""
        if why := self.lack(case):
            return Outcome("not run", why)
        return self.judged(self.submit(self.document(case)))

    def document(self, case: Case) -> dict[str, Any]:
        """The example's job, to be submitted from anywhere."""
        path = ROOT / "examples" / case.file
        document: dict[str, Any] = yaml.safe_load(path.read_text())
        return document | {"workdir": str(path.parent)}

    def submit(self, document: dict[str, object]) -> str:
        """Submit the job, with the frameworks in its PATH; its id."""
        path = self.platform.home / "job.yaml"
        path.write_text(yaml.safe_dump(document | {"env": self.env}))
        return self.platform.headrace("submit", str(path)).stdout.split()[0]

    def ended(self, job: str) -> str:
        """The job's state, once it has ended; one that does not end is cancelled."""
        client, deadline_s = self.platform.client(), time.monotonic() + RUN_S_MAX
        while (row := client.job(job).job).state not in ENDED:
            if time.monotonic() > deadline_s:
                client.cancel(job)
                return f"running after {RUN_S_MAX:.0f} s"
            time.sleep(POLL_S)
        return row.state

    def output(self, job: str) -> str:
        """What all of its processes wrote."""
        return self.platform.headrace("logs", job, check=False).stdout

    def judged(self, job: str) -> Outcome:
        """How it went, once it has ended."""
        state, output = self.ended(job), self.output(job)
        row = self.platform.client().job(job).job
        differences = [float(found) for found in _DIFFERENCE.findall(output)]
        if state != "succeeded" or not differences:
            lines = [line for line in output.splitlines() if _TOLD.search(line)]
            print("\n".join(lines[-LINES_SHOWN:]))
            return Outcome("failed", f"{state}: {row.why or 'it compared nothing'}", row.wants)
        return Outcome("ran", f"difference {max(differences):.1e}", row.wants, row.ran_us / 1e6)

    def lack(self, case: Case) -> str:
        """Why the case cannot be run; empty if it can."""
        if case.reason:
            return case.reason
        if case.program and shutil.which(case.program, path=self.env["PATH"]) is None:
            return f"{case.program} is not installed (make system-deps)"
        script = f"import importlib.util as u, sys; sys.exit(u.find_spec({case.module!r}) is None)"
        found = subprocess.run([f"{self._venv}/bin/python", "-c", script], check=False)
        return f"{case.module} did not install" if found.returncode else ""
