"""Pausing: jobs that leave their GPUs and come back to them.

Rule: a gang leaves all of its devices or none: first every process stops using them (`locked`), then
what they have there is moved to their nodes' memory (`paused`); only on proof of that are the
devices given back, by `gang.paused`, and they are booked again by `gang.resumed`. Where that cannot
be done the attempt ends, by the job's own checkpoint signal or without (`gang.evicted`).
"""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Decision, Fact, Refusal
from headrace.events.gangs import Act, Share, Worker


class JobPauseRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="job.pause_requested.v1"
):
    """Somebody asked for a job, or all of a group's, to leave its GPUs until it is resumed. `job`
    may name a job nobody knows.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project")
    job: str
    project: str
    user: str


class JobPausing(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.pausing.v1"):
    """The job is to leave its GPUs, and competes for none until `job.resuming`. Of a group it is
    said first, and then of each of its tasks.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "user")
    job: str
    project: str
    user: str = ""


class JobPauseRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.pause_refused.v1"
):
    """The job cannot be paused: it is unknown, has ended, or is to end."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "refusal")
    job: str
    project: str
    refusal: Refusal


class JobResumeRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="job.resume_requested.v1"
):
    """Somebody asked for a paused job to go on. `job` may name a job nobody knows."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project")
    job: str
    project: str
    user: str


class JobResuming(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.resuming.v1"):
    """The job competes again, with what was saved of it. Of a group it is said first, and then of
    each of its tasks.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "user")
    job: str
    project: str
    user: str = ""


class JobResumeRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.resume_refused.v1"
):
    """The job cannot be resumed: it is not paused, is unknown, or has ended."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "refusal")
    job: str
    project: str
    refusal: Refusal


class JobPaused(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="job.paused.v1"):
    """The job holds no GPU. Said again when what was kept of it is lost meanwhile.

    `way` is how: waiting (it had none), cuda-checkpoint (its processes keep what they did, in the
    memory of their nodes), signal (it was asked to save itself), stop. `lost` says in one line what
    it will have to do again ("": nothing), `lost_us` how long it had worked on that.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "way", "lost", "lost_us")
    job: str
    project: str
    way: str
    attempt: int = 0
    lost: str = ""
    lost_us: int = 0


class GangPausing(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.pausing.v1"):
    """The attempt is to leave its devices with its processes alive: all of its workers, or none.

    In the phase `locked` every process stops to use its devices; when all have, `paused` moves what
    they have there to their nodes' memory, of which `image_bytes` are booked for each rank in
    order. `reason` is paused (its own people asked), or why `gainer` gets the devices.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "phase", "reason")
    job: str
    project: str
    attempt: int
    phase: str
    reason: str
    image_bytes: tuple[int, ...] = ()
    gainer: str = ""
    act: Act


class GangPaused(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.paused.v1"):
    """Every worker has left its devices, which are free. Its processes and what they had there stay
    in their nodes' memory. `held_us` is how long the devices were booked since the attempt was
    placed or resumed last.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "way", "held_us")
    job: str
    project: str
    attempt: int
    way: str
    shares: tuple[Share, ...]  # booked milli per device, summed and sorted by device
    milli: int = 0
    held_us: int = 0


class GangResumed(Decision, frozen=True, kw_only=True, omit_defaults=True, tag="gang.resumed.v1"):
    """The attempt goes on where its processes are, on these devices. Books them."""

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "workers")
    job: str
    project: str
    attempt: int
    workers: tuple[Worker, ...]
    milli: int = 0
    act: Act


class AttemptLocked(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="attempt.locked.v1"):
    """The worker `rank` uses its devices no more, as the decision at `asked_at` wants.

    `gpu_bytes` is what it has there (0: not known).
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
    asked_at: int
    gpu_bytes: int = 0
    at_us: int = 0


class AttemptPaused(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="attempt.paused.v1"):
    """What the worker `rank` had on its devices is in the node's memory, as the decision at
    `asked_at` wants; it holds nothing on them and does not run. It took `took_us`.
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
    asked_at: int
    took_us: int = 0
    at_us: int = 0


class AttemptResumed(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="attempt.resumed.v1"):
    """The worker `rank` runs on its devices again, as the decision at `asked_at` wants. It took
    `took_us`.
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
    asked_at: int
    took_us: int = 0
    at_us: int = 0


class AttemptPauseFailed(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="attempt.pause_failed.v1"
):
    """The worker `rank` could not do what the decision at `asked_at` wants, and why.

    It runs on as before, unless it is `broken`: then it cannot go on and is ended.
    """

    owner: ClassVar[str] = "placement"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = ("job", "project", "attempt", "rank", "node", "message")
    job: str
    project: str
    attempt: int
    rank: int
    node: str
    incarnation: str
    report: int
    asked_at: int
    message: str
    broken: bool = False
    at_us: int = 0
