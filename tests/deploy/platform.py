"""A platform as `deploy/prepare.py` prepares it: its own processes, started from their folders."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.embedded import binaries, processes

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = ("admission", "quota", "placement", "metrics", "gateway")
READY_S_MAX = 60.0
END_S_MAX = 60.0


def prepare(
    folder: Path, dsn: str, nats_url: str, *nodes: str, said: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `deploy/prepare.py` for processes on this machine, with what else is `said`."""
    named = [word for node in nodes for word in ("--node", node)]
    command = [sys.executable, str(DEPLOY / "prepare.py"), str(folder), "--pg-dsn", dsn]
    command += ["--files", str(folder / "files")]
    return subprocess.run(
        [*command, "--nats-url", nats_url, "--etc", str(folder), *named, *said],
        capture_output=True,
        text=True,
    )


@contextlib.contextmanager
def nats_server(folder: Path, port: int) -> Iterator[None]:
    """NATS with `deploy/nats/headrace.conf`, its port and its store moved into the test."""
    text = (DEPLOY / "nats" / "headrace.conf").read_text()
    text = text.replace("0.0.0.0:4222", f"127.0.0.1:{port}").replace("/data", f"{folder}/store")
    (folder / "headrace.conf").write_text(text)
    (folder / "trust").symlink_to(folder / "nats")
    command = [str(binaries.nats_server()), "--config", str(folder / "headrace.conf")]
    with running(command, {}, folder / "nats.log"):
        yield


@contextlib.contextmanager
def started(folder: Path, name: str, module: str, **more: str) -> Iterator[Path]:
    """One process from its folder, as `deploy/start.sh` starts it; its port file."""
    run_dir = folder / "run" / name
    run_dir.mkdir(parents=True)
    env = {"HEADRACE_RUN_DIR": str(run_dir), "HEADRACE_INSTANCE": f"{name}-1", **more}
    command = ["/bin/sh", str(DEPLOY / "start.sh"), str(folder / name), module]
    with running(command, env, folder / f"{name}.log"):
        yield run_dir / f"{module}.port"


@contextlib.contextmanager
def running(command: list[str], env: dict[str, str], log: Path) -> Iterator[None]:
    """A process for as long as the block lasts, then asked to end."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env={"PATH": path, **env}, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait(is_so, what: str) -> None:
    """Until `is_so()`."""
    assert processes.wait_until(is_so, READY_S_MAX, poll_s=0.05), f"did not happen: {what}"
