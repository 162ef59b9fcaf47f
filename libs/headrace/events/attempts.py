"""Attempts: what node agents report of the processes they run, as placement recorded it.

Rule: an agent's report becomes a fact once, in the order of the agent's own journal: `report`
numbers it within one incarnation of the node's journal.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Decision, Fact
from headrace.events.gangs import Act


class AttemptStarted(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="attempt.started.v1"):
    """The worker `rank` of this attempt runs. `at_us` is the node's clock, for people only.

    `enforcement` names what keeps it to its share of a device: mig (it has a slice of its own), mps
    (the driver refuses more), watch (its node's agent ends it when it takes more), none; `isolation`
    what keeps its processes apart from others: systemd+cgroup2, cgroup2, cgroup1, processes.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "rank", "node")
    job: str
    project: str
    attempt: int
    rank: int
    node: str
    incarnation: str
    report: int
    at_us: int = 0
    enforcement: str = "none"
    isolation: str = ""


class AttemptExited(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="attempt.exited.v1"):
    """The worker `rank` has gone, with proof: nothing of it is left on the node.

    `reason` is exited (the command's own end), stopped (asked to), requeued (it asked for another attempt), lost (its supervisor or node
    went away under it), start-failed, disk-full (its node had no room to start it, and takes no more
    work until its disk is measured anew), setup (its setup command failed), ports-taken (somebody
    outside listens where its peers were to find it), oom (it used more memory than it had asked for),
    over-share (it held more memory of a device than its share and was ended for that), gpu-oom (it
    failed, and said last that a device had no memory left for it). `exit_code`
    is 128+N for signal N. `message` is one line. `reported` is what its program said last
    (`headrace.client.worker.report`): decimals as text, by name. `outputs` is the SHA-256 of what is
    kept of it, as its manifest has it, which are so many files and bytes, `checkpoint` that of what
    the job's next attempt finds in its folder for checkpoints. `process` is which of its
    processes failed first (-1: none by itself).
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = (
        "job", "project", "attempt", "rank", "node", "exit_code", "reason", "message",
    )  # fmt: skip
    job: str
    project: str
    attempt: int
    rank: int
    node: str
    incarnation: str
    report: int
    reason: str
    exit_code: int = 0
    message: str = ""
    at_us: int = 0
    reported: dict[str, str] = {}
    outputs: str = ""
    outputs_files: int = 0
    outputs_bytes: int = 0
    process: int = -1
    checkpoint: str = ""


class AttemptOverran(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="attempt.overran.v1"):
    """The attempt has run for longer than its job may, and its nodes have not ended it: for at least
    `ran_us` by the steady clock of who leads placement, which no setting of clocks moves.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt")
    job: str
    project: str
    attempt: int
    ran_us: int


class AttemptExpired(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="attempt.expired.v1"
):
    """The worker `rank` has gone with its lease: its node has been silent for longer than the job's
    `replace_after`, at which agent and shim, each by its own clock, ended it.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "rank", "node")
    job: str
    project: str
    attempt: int
    rank: int
    node: str
    act: Act
