"""The program that keeps loopback ports apart, tried on groups of this host: processes of several
accounts, in groups of several nodes, before and after it is there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node_agent.conftest import offered

from headrace.node_agent.isolation.cgroups import Cgroup2
from headrace.node_agent.supervision import kernel_programs, loopback_filter
from headrace.node_agent.supervision.loopback_filter import NAMES

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or "python3"
ADA, BOB, NOBODY, LARGE = 2_100_000_001, 2_100_000_002, 65_534, 2**31 + 65_537
OUT, IN = 1, 0
ENTERS = """
import os, socket, sys
group, account = sys.argv[1], int(sys.argv[2])
if group:
    job = f"{group}/{account}.{os.getpid()}"
    os.mkdir(job)
    open(f"{job}/cgroup.procs", "w").write("0")
os.setgroups([])
os.setresgid(account, account, account)
os.setresuid(account, account, account)
"""
SERVES = """
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    server.accept()[0].sendall(b"served")
"""
ASKS = """
try:
    print(socket.create_connection(("127.0.0.1", int(sys.argv[3])), 0.5).recv(9).decode())
except TimeoutError:
    print("dropped")
"""
IS_OURS = 1 << 31

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def nodes() -> Iterator[list[str]]:
    """Groups of version 2 of two nodes, as two platforms on one machine have them."""
    isolation = offered("v2")
    assert isinstance(isolation, Cgroup2)
    groups = [f"{isolation.base}-{number}" for number in range(2)]
    for group in groups:
        os.mkdir(group)
    yield groups
    for group in [isolation.base, *groups]:
        for job in Path(group).glob("*/"):
            job.rmdir()
        os.rmdir(group)


@contextlib.contextmanager
def running(group: str, account: int, program: str, *of: str) -> Iterator[subprocess.Popen[str]]:
    """A job's process, in a group of its own below the node's; in none if that is empty."""

    command = [PYTHON, "-c", ENTERS + program, group, str(account), *of]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def serving(group: str, account: int) -> Iterator[str]:
    with running(group, account, SERVES) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def said(group: str, account: int, port: str) -> str:
    with running(group, account, ASKS, port) as process:
        return process.communicate(timeout=30)[0].strip()


def test_it_holds_for_what_ran_before_it_and_between_the_nodes_of_two_platforms(
    nodes: list[str],
) -> None:
    one, other = nodes
    with serving(one, ADA) as port:
        assert said(other, BOB, port) == "served"  # so that this is known to be an attack
        for node in nodes:
            loopback_filter.keep(node)

        assert {said(node, BOB, port) for node in nodes} == {"dropped"}
        assert {said(node, ADA, port) for node in nodes} == {"served"}
        assert said("", 0, port) == "served"
        assert said("", BOB, port) == "served"  # a person's own process is no job


def test_the_platform_is_reached_by_every_job_and_an_account_that_cannot_be_told_reaches_no_job(
    nodes: list[str],
) -> None:
    loopback_filter.keep(nodes[0])
    with serving("", 0) as port:
        assert {said(nodes[0], who, port) for who in (ADA, NOBODY, LARGE)} == {"served"}
    with serving(nodes[0], LARGE - IS_OURS) as port:
        assert said(nodes[0], LARGE, port) == "dropped"  # the lower bits are the same
    for account in (NOBODY, LARGE):
        with serving(nodes[0], account) as port:
            assert {said(nodes[0], who, port) for who in (account, ADA)} == {"dropped"}
            assert said("", 0, port) == "served"


def test_it_is_there_once_however_many_agents_see_to_it_and_another_version_goes(
    nodes: list[str],
) -> None:
    group = nodes[0]
    passes = kernel_programs.instruction(kernel_programs.SET, 0, value=1)
    earlier = passes + kernel_programs.instruction(kernel_programs.EXIT)
    kernel_programs.keep_program(group, 8, IN, earlier, NAMES[1])
    agents = [threading.Thread(target=loopback_filter.keep, args=(group,)) for _ in range(8)]
    for agent in agents:
        agent.start()
    for agent in agents:
        agent.join()

    assert kernel_programs.names_attached(group, OUT) == [NAMES[0]]
    assert kernel_programs.names_attached(group, IN) == [NAMES[1]]
    with serving(group, ADA) as port:
        assert said(group, BOB, port) == "dropped"


def test_another_ones_program_stays(nodes: list[str]) -> None:
    passes = kernel_programs.instruction(kernel_programs.SET, 0, value=1)
    theirs = passes + kernel_programs.instruction(kernel_programs.EXIT)
    kernel_programs.keep_program(nodes[0], 8, IN, theirs, "others")
    loopback_filter.keep(nodes[0])
    assert sorted(kernel_programs.names_attached(nodes[0], IN)) == [NAMES[1], "others"]
