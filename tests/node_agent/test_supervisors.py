"""What a job may not do to the process that supervises it, which is in its namespace."""

from __future__ import annotations

import os
import signal

import pytest

from headrace.node_agent.isolation.accounts import FIRST
from headrace.node_agent.supervision import kernel, shim


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has accounts to give")
def test_a_thread_that_has_an_account_is_none_that_the_account_may_trace_or_limit() -> None:
    """Both ask for all three ids, of users and of groups: prlimit(2), ptrace(2)."""
    ids: list[list[int]] = []

    def begin() -> None:
        kernel.be(FIRST, FIRST, [])
        status = kernel.read("/proc/thread-self/status", 4096).decode().splitlines()
        ids.extend(
            [int(word) for word in line.split()[1:4]]
            for line in status
            if line.startswith(("Uid:", "Gid:"))
        )

    kernel.run_beside(begin)

    assert ids == [[FIRST, FIRST, 0], [FIRST, FIRST, 0]]


def test_who_says_itself_who_it_is_is_taken_for_a_process_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "FIRST", os.getpid())
    by_agent, queued, by_job = (
        signal.struct_siginfo((signal.SIGTERM, code, 0, pid, 0, 0, 0))
        for code, pid in ((0, 0), (-1, 0), (0, 7))
    )

    assert [shim.is_within(info) for info in (by_agent, queued, by_job)] == [False, True, True]
