"""Slurm on the same machine, in the same minutes: `make bench-slurm` (root, and its packages).

Rule: a cluster of its own on loopback, as fast as its manual's high-throughput guide makes it; what it
measures is what `tests.bench.jobs` measures of us: jobs of `true`, one after another and many at once.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.printing import facts, row

DAEMONS = ("munged", "slurmctld", "slurmd")
CPUS = 128  # so that as many run at once as on our nodes of 64 GPUs each
ARRAY = 300
SINGLE = 300
SRUNS = 30
READY_S_MAX = 30.0
ENDED_S_MAX = 300.0
# After https://slurm.schedmd.com/high_throughput.html; what it has no word on is Slurm's default.
CONFIGURATION = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/ended
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,default_queue_depth=10000
SlurmdParameters=config_overrides
MaxArraySize=10001
MaxJobCount=20000
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1024 State=UNKNOWN
PartitionName=bench Nodes=ALL Default=YES State=UP OverSubscribe=NO
"""


def is_there() -> bool:
    """Whether Slurm can be started here."""
    return os.geteuid() == 0 and all(shutil.which(name) for name in DAEMONS)


def main() -> None:
    """Print the figures, or how they can be had."""
    if not is_there():
        raise SystemExit(f"no Slurm here: root, and {', '.join(DAEMONS)} (`make bench-slurm`)")
    print(facts())
    row("figure", "measured", "")
    measure()


def measure() -> None:
    """One row for each figure."""
    with tempfile.TemporaryDirectory(prefix="headrace-slurm-") as name:
        cluster = Cluster(Path(name))
        with cluster.running():
            walls_ms = [_timed_ms(cluster, "srun", "true") for _ in range(SRUNS)]
            row("Slurm: srun true, p50", f"{statistics.median(walls_ms):.0f} ms", "")
            row(f"Slurm: array of {ARRAY} × true", f"{_array(cluster):.0f} jobs/s", "")
            row(f"Slurm: {SINGLE} × sbatch true", f"{_single(cluster):.0f} jobs/s", "")


class Cluster:
    """A controller and one node in this folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While this is open."""
        folder = self._folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "ended").touch()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        ports = {"controller": _free_port(), "daemon": _free_port()}
        host = socket.gethostname().partition(".")[0]
        configuration = CONFIGURATION.format(folder=folder, host=host, cpus=CPUS, **ports)
        (folder / "slurm.conf").write_text(configuration, encoding="ascii")
        munged = (
            "munged", "--foreground", "--force", f"--key-file={key}",
            f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed",
        )  # fmt: skip
        with contextlib.ExitStack() as stack:
            for command in (munged, ("slurmctld", "-D", "-c"), ("slurmd", "-D", "-N", host)):
                stack.enter_context(self._daemon(command))
            began = time.monotonic()
            while self.say("sinfo", "-h", "-o", "%T").strip() != "idle":
                if time.monotonic() - began > READY_S_MAX:
                    raise SystemExit("Slurm did not become ready:\n" + self._logs())
                time.sleep(0.1)
            yield

    @contextlib.contextmanager
    def _daemon(self, command: tuple[str, ...]) -> Iterator[None]:
        log = (self._folder / f"{command[0]}.out").open("wb")
        with log, subprocess.Popen(command, env=self._env, stdout=log, stderr=log) as process:
            try:
                if command[0] == "munged":
                    while not (self._folder / "munge.socket").exists() and process.poll() is None:
                        time.sleep(0.02)
                yield
            finally:
                process.terminate()

    def say(self, *words: str) -> str:
        """What a command of Slurm prints."""
        return subprocess.run(
            words, env=self._env, capture_output=True, text=True, check=False
        ).stdout

    def ended(self) -> int:
        """How many jobs have."""
        return (self._folder / "ended").read_bytes().count(b"\n")

    def _logs(self) -> str:
        return "\n".join(path.read_text() for path in self._folder.glob("*.out"))[-2000:]


def _timed_ms(cluster: Cluster, *words: str) -> float:
    began = time.monotonic()
    cluster.say(*words)
    return (time.monotonic() - began) * 1e3


def _array(cluster: Cluster) -> float:
    before, began = cluster.ended(), time.monotonic()
    cluster.say("sbatch", f"--array=0-{ARRAY - 1}", "--output=/dev/null", "--wrap=true")
    return ARRAY / (_all_ended(cluster, before + ARRAY) - began)


def _single(cluster: Cluster) -> float:
    before, began = cluster.ended(), time.monotonic()
    for _ in range(SINGLE):
        cluster.say("sbatch", "--output=/dev/null", "--wrap=true")
    return SINGLE / (_all_ended(cluster, before + SINGLE) - began)


def _all_ended(cluster: Cluster, count: int) -> float:
    """When the last of them had."""
    began = time.monotonic()
    while cluster.ended() < count:
        if time.monotonic() - began > ENDED_S_MAX:
            raise SystemExit(f"Slurm: {cluster.ended()} of {count} jobs ended")
        time.sleep(0.02)
    return time.monotonic()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
