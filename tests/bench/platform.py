"""A platform to measure: started by the command line, in a folder of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

HEADRACE = Path(sys.executable).parent / "headrace"


class Platform:
    """Two simulated nodes, a project `bench`, and a publisher of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o711)  # as root, Postgres' account passes through it
        self.data_dir = folder / "data"
        self.env = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
        for name in ("HEADRACE_URL", "HEADRACE_TOKEN", "PYTHONDONTWRITEBYTECODE"):
            self.env.pop(name, None)

    def up(self) -> None:
        self._run(
            "up", "--detach", "--nodes", "2", "--gpus", "simulated:64xH100-80GB",
            "--data-dir", str(self.data_dir), "--metrics-port", "0",
        )  # fmt: skip

    def down(self, *, for_good: bool = False) -> None:
        delete = ("--delete-data",) if for_good else ()
        self._run("down", "--yes", "--data-dir", str(self.data_dir), *delete)

    def say(self, *words: str) -> str:
        """What a command about this data dir prints."""
        return self._run(*words, "--data-dir", str(self.data_dir))

    def publisher(self) -> Path:
        """The credentials file of a publisher of the project `default`."""
        creds = self.folder / "bench.creds"
        if not creds.exists():
            self._run("publisher", "create", "bench", "--project", "default", cwd=self.folder)
        return creds

    def nats_url(self) -> str:
        state = json.loads((self.data_dir / "nats" / "state.json").read_text())
        return str(state.get("url") or f"nats://127.0.0.1:{state['port']}")

    def service_creds(self, name: str) -> Path:
        return self.data_dir / "secrets" / f"{name}.creds"

    def pids(self) -> list[int]:
        """The supervisor's whole process tree, and what runs apart from it."""
        status: dict[str, Any] = json.loads(
            self._run("status", "--data-dir", str(self.data_dir), "-o", "json")
        )
        pids = {row["pid"] for row in status["processes"] if row["pid"]}
        for pid in list(pids):
            pids |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        for process in psutil.process_iter(["cmdline"]):
            if any(str(self.data_dir) in word for word in process.info["cmdline"] or []):
                pids.add(process.pid)
        return sorted(pids)

    def typed_ms(self, *words: str) -> float:
        """The median of twenty times this command, as in a shell."""
        taken = []
        for _ in range(20):
            began = time.perf_counter()
            self._run(*words)
            taken.append((time.perf_counter() - began) * 1000)
        return statistics.median(taken)

    def _run(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [HEADRACE, *words], env=self.env, cwd=cwd, text=True, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"headrace {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout
