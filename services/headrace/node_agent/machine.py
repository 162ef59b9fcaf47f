"""What the agent needs of the machine it runs on: to start workers, stop them, and look at them.

Rule: the agent decides nothing from memory alone. `look` says what is true of an attempt here and
now, also of one that an earlier agent started; calling `start` or `stop` twice changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from headrace.bus.agents import Assignment, Launch, LogsChunk, LogsWanted
from headrace.bus.sessions import Enter, Frame
from headrace.events.gangs import Share


class Unopenable(Exception):
    """An assignment's launch cannot be opened here; the message says why."""


class AttemptKey(NamedTuple):
    """One worker of one attempt: the agent's unit of work."""

    job: str
    attempt: int
    rank: int


class End(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a worker ended, with proof that nothing of it is left; see `events.attempts`."""

    reason: str  # exited | stopped | lost | start-failed | disk-full | setup | ports-taken | …
    exit_code: int = 0
    message: str = ""
    started_at_us: int = 0  # 0: it never ran
    ended_at_us: int = 0
    reported: dict[str, str] = {}
    outputs: str = ""
    outputs_files: int = 0
    outputs_bytes: int = 0
    process: int = -1
    checkpoint: str = ""


class Paused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of the last wish to leave the devices or to come back: `phase` is locked, paused or
    running, as the decision at `phase_at` wants, unless it `failed` for this reason: then it runs,
    or is `broken`. It had `gpu_bytes` on its devices (0: not known), and took `took_us`.
    """

    phase: str
    phase_at: int
    failed: str = ""
    broken: bool = False
    gpu_bytes: int = 0
    took_us: int = 0


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is true of an attempt on this machine.

    `phase` is starting, running or ended (then `end` is set). `stopping` says that it was asked
    to end, within `grace_s`. The rest is what was known when it was started, kept with it.
    """

    phase: str
    project: str
    traceparent: str = ""
    enforcement: str = "none"
    shares: tuple[Share, ...] = ()
    started_at_us: int = 0
    replace_after_s: int = 0
    isolation: str = ""
    stopping: bool = False
    grace_s: int = 0
    pause: Paused | None = None
    end: End | None = None

    @property
    def is_away(self) -> bool:
        """It has left its devices."""
        return self.pause is not None and self.pause.phase == "paused" and not self.pause.failed


class Workplace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a worker works: `tree` is a folder that becomes its own by being moved there ("": it
    begins with an empty one), `cwd` one of the node's in which it works instead.

    `moves` are folders that become the attempt's beside it (source, and path in its folder);
    `mounts` what only its processes see (source, target, read-only), where {} is the attempt's
    folder; `links` what is linked below its working directory (path, target, read-only); `env` says where;
    `outputs` are the paths that are kept when it has ended; `setup` is what
    prepares it, see `supervision.setting_up`; `recorded` is what else the record says of how it is
    kept apart.
    """

    tree: str = ""
    cwd: str = ""
    moves: tuple[tuple[str, str], ...] = ()
    mounts: tuple[tuple[str, str, bool], ...] = ()
    links: tuple[tuple[str, str, bool], ...] = ()
    env: dict[str, str] = {}
    outputs: tuple[str, ...] = ()
    setup: dict[str, Any] = {}
    recorded: str = ""


class Inside(NamedTuple):
    """A running attempt from within: its folder, its shim (a pidfd; -1: it has none), and how its processes are told from
    others (the mark in their environment, the sessions of its first ones, its control groups).
    """

    folder: Path
    pidfd: int
    marker: str
    pids: list[int]
    groups: list[str]


class Way(Protocol):
    """What somebody's session in a worker leads to."""

    def said(self) -> AsyncIterator[Frame]:
        """What comes from it; ends after its `exit` or `eof`."""
        ...

    async def hear(self, frame: Frame) -> None:
        """Take what somebody says to it."""
        ...

    async def close(self) -> None:
        """Nobody is there any more."""
        ...


class Machine(Protocol):
    """The process side of a node. All calls return at once; what they cause is told by `changed`,
    which names an attempt that `look` now has something new about.
    """

    async def open(self, changed: Callable[[AttemptKey], None]) -> None:
        """Find what runs here from before, and keep telling from now on."""
        ...

    def held(self) -> Iterable[AttemptKey]:
        """The attempts that are starting or running, or have ended since `open` unforgotten."""
        ...

    def look(self, key: AttemptKey) -> Seen | None:
        """What is true of this attempt; None when it was never started here."""
        ...

    def start(self, assignment: Assignment, launch: Launch, place: Workplace) -> None:
        """Start the worker there, once in its life. A failure shows as an end, `start-failed`."""
        ...

    def bar(self, key: AttemptKey, end: End) -> bool:
        """See to it that an attempt that `look` does not know never starts here: that is its end then.
        False when it is about to run all the same: `look` knows it from now on.
        """
        ...

    def stop(self, key: AttemptKey, reason: str, grace_s: int, signal: str = "") -> None:
        """Ask the worker to end, by this signal (SIGTERM unless said), and make it `grace_s` later.
        One that has left its devices comes back first, unless it has no time to save itself.
        """
        ...

    def move(self, assignment: Assignment) -> None:
        """Take the running worker to the phase that is wanted of it, or tell why it cannot be: all
        of its processes, or none.
        """
        ...

    def forget(self, key: AttemptKey) -> None:
        """Nobody will ask about this ended attempt again, but for its logs for a while."""
        ...

    def read_logs(self, wanted: LogsWanted) -> LogsChunk:
        """What there is of a process's output from an offset on; never waits."""
        ...

    def inside(self, key: AttemptKey) -> Inside | None:
        """What a session in this attempt works with; None when it does not run here."""
        ...

    async def program(self, key: AttemptKey, wanted: Enter) -> Way:
        """Start a program beside a worker that `inside` knows. Raises `OSError`."""
        ...

    @property
    def engine(self) -> str:
        """The container engine that runs workers with an image, for people; empty: none does."""
        ...

    def reported(self, key: AttemptKey) -> dict[str, str]:
        """What the worker's program said last of itself: decimals by name."""
        ...

    def disk_permille(self) -> int:
        """How full the disk is that workers write to."""
        ...

    async def close(self) -> None:
        """Leave. Workers run on."""
        ...
