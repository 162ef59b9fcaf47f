"""`mpirun` over the nodes of a gang: one real launcher, and nodes that do what it asks for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.documents.frameworks import Place
from headrace.node_agent.gang_files import files_of
from headrace.testing.ports import free_port

END_S_MAX = 60.0
# What a launcher does: starts its daemon on every node, and ends as the daemons do.
LAUNCHER = """#!/bin/sh
for node in n1 n2; do gang-rsh $node "$@" & daemons="$daemons $!"; done
code=0
for daemon in $daemons; do wait $daemon || code=$?; done
exit $code
"""


class Gang:
    """Two nodes of one gang, each with the worker's folder that the agent makes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.port = free_port()
        real = folder / "real"
        real.mkdir()
        (real / "mpirun").write_text(LAUNCHER)
        (real / "mpirun").chmod(0o755)
        place = Place(
            job="job-1",
            attempt=1,
            folder="",
            names=("n1", "n2"),
            addresses=("127.0.0.1", "127.0.0.1"),
            ports=(self.port, self.port + 1),
            slots=(2, 2),
        )
        for rank in range(2):
            for path, (mode, content) in files_of(place, "mpi").items():
                file = folder / str(rank) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
                file.chmod(mode)

    def mpirun(self, rank: int, *command: str, key: str = "secret") -> subprocess.Popen[str]:
        """The job's command on one node."""
        bin_dir = self.folder / str(rank) / "bin"
        env = {
            "PATH": f"{bin_dir}:{self.folder}/real:{os.environ['PATH']}",
            "HEADRACE_NUM_NODES": "2",
            "HEADRACE_NODE_RANK": str(rank),
            "HEADRACE_NODE_NAMES": "n1,n2",
            "HEADRACE_LAUNCH_ADDRESS": f"127.0.0.1:{self.port}",
            "HEADRACE_GANG_KEY": key,
        }
        process = subprocess.Popen(
            ["mpirun", *command],
            executable=str(bin_dir / "mpirun"),
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(process.stdout.close)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Gang]:
    with ExitStack() as stack:
        yield Gang(tmp_path, stack)


def test_each_node_runs_what_the_launcher_asks_of_it_and_ends_as_it_does(gang: Gang) -> None:
    (gang.folder / "real" / "mpiexec").symlink_to("/bin/echo")  # within mpirun it is the node's own
    script = "mpiexec on $HEADRACE_NODE_RANK; [ $HEADRACE_NODE_RANK = 0 ] || exit 7"

    both = [gang.mpirun(rank, script) for rank in range(2)]

    assert [one.communicate(timeout=END_S_MAX)[0] for one in both] == ["on 0\n", "on 1\n"]
    assert [one.returncode for one in both] == [7, 7]


def test_a_launcher_that_dies_takes_with_it_what_it_started(gang: Gang, tmp_path: Path) -> None:
    fifo = tmp_path / "running"
    os.mkfifo(fifo)
    script = f"[ $HEADRACE_NODE_RANK = 0 ] || {{ echo $$ > {fifo}; exec sleep 1000; }}"
    second, first = gang.mpirun(1, script), gang.mpirun(0, script)
    daemon = int(fifo.read_text())

    first.send_signal(signal.SIGKILL)

    assert second.wait(END_S_MAX) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(daemon, 0)


def test_nobody_without_the_gangs_key_is_obeyed_or_served(gang: Gang) -> None:
    gang.mpirun(0, "echo mine", key="another")
    member = gang.mpirun(1, "echo never")

    said = member.communicate(timeout=END_S_MAX)[0]

    assert said == f"mpirun: 127.0.0.1:{gang.port} is not of this gang\n"
    assert member.returncode == 1
