"""`make demo`: two projects share two simulated nodes, on a platform that comes and goes.

Exit code 0 means that all of it happened: work beyond a quota on idle GPUs, a reclaim with its
reason, a two-node training whose loss equals the one-process loss, two sweeps, accounts for both
projects, and a log in which every decision could be derived again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HEADRACE = Path(sys.executable).parent / "headrace"
FLEET_S_MAX = 80  # all jobs together; far beyond what two cores need


class Demo:
    """A platform of its own in a folder of its own; nothing of the user's is touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
        }
        for name in ("HEADRACE_URL", "HEADRACE_TOKEN", "HEADRACE_PROJECT"):
            self.env.pop(name, None)

    def say(self, *words: str) -> str:
        """Run a command as a user would, showing it and what it prints."""
        print(f"\n$ headrace {' '.join(words)}", flush=True)
        done = self._run(*words)
        print(done.stdout, end="", flush=True)
        if done.returncode:
            raise SystemExit(f"demo: headrace {words[0]} ended {done.returncode}: {done.stderr}")
        return done.stdout

    def read(self, *words: str) -> Any:
        """What a reading command says, as data."""
        return json.loads(self._run(*words, "-o", "json").stdout)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The log's events of one type."""
        lines = self._run("events", "--type", kind, "-o", "json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def wait(self, what: str, is_so: Any) -> None:
        """Until `is_so()`, or not within the limit: then the demo has failed."""
        deadline = time.monotonic() + FLEET_S_MAX
        while not is_so():
            if time.monotonic() > deadline:
                raise SystemExit(f"demo: {what} did not happen within {FLEET_S_MAX} s")
            time.sleep(0.3)

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, sweeps as one row."""
        return list(self.read("ps", "--all", "--limit", "500"))

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HEADRACE, *words],
            env=self.env,
            cwd=HERE.parent,
            text=True,
            capture_output=True,
            check=False,
        )


def main() -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
        Path(folder).chmod(0o711)  # root's Postgres runs as an account that passes through it
        demo = Demo(Path(folder))
        demo.say("up", "--detach", "--nodes", "2", "--gpus", "simulated:8xH100-80GB")
        try:
            show(demo)
        finally:
            demo.say("down", "--delete-data", "--yes")
    print(f"\nThe demo took {time.monotonic() - began:.0f} s. Next: make up, then the README.")


def show(demo: Demo) -> None:
    """The story, in the order in which it is told."""
    demo.say("apply", "-f", "examples/fleet.yaml")
    title("vision is guaranteed 8 GPUs and takes all 16, because nobody else wants them")
    demo.say("submit", "examples/idle-gpus.yaml")
    demo.wait("over-quota use", lambda: project(demo, "vision").get("held_milli") == 16_000)
    demo.say("projects")
    title("ads asks for 4 of its guaranteed 8: vision gives them back")
    demo.say("submit", "examples/distributed.yaml")
    demo.wait("a reclaim", lambda: demo.events("gang.pausing"))
    demo.say("events", "--type", "gang.pausing")
    title("both projects train: sixteen trials each, on quarters of GPUs")
    demo.say("submit", "examples/sweep.yaml")
    demo.say("submit", "--project", "ads", "examples/sweep.yaml")
    demo.wait("the end of all jobs", lambda: all_ended(demo))
    title("what came of it")
    demo.say("ps", "--all")
    demo.say("projects")
    trained = next(job["job"] for job in demo.jobs() if job["name"] == "allreduce")
    demo.say("describe", trained)
    demo.say("logs", trained, "--rank", "0")
    demo.say("verify", "--data-dir", str(demo.folder / "data" / "headrace"))
    check(demo)


def check(demo: Demo) -> None:
    """Fail unless everything that was announced happened."""
    bad = [job["job"] for job in demo.jobs() if job["state"] != "succeeded"]
    evictions = demo.events("gang.pausing")
    reclaimed = [event for event in evictions if event["data"].get("reason") == "reclaimed"]
    idle = [name for name in ("vision", "ads") if not project(demo, name).get("gpu_us")]
    if bad or not reclaimed or idle:
        raise SystemExit(f"demo: not succeeded {bad}, reclaims {len(reclaimed)}, no usage {idle}")


def all_ended(demo: Demo) -> bool:
    return all(job["state"] in ("succeeded", "failed", "cancelled") for job in demo.jobs())


def project(demo: Demo, name: str) -> dict[str, Any]:
    rows = demo.read("projects")
    rows = rows.get("projects", rows) if isinstance(rows, dict) else rows
    return next((dict(row) for row in rows if row["project"] == name), {})


def title(text: str) -> None:
    print(f"\n—— {text} ——", flush=True)


if __name__ == "__main__":
    main()
