"""Workspaces that nobody uses: what was seen of one, and the warning before it ends.

Rule: use is what passes through the gateway, what its programs report, and what its GPUs do. What
was not watched counts as use.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Decision, Fact

BUSY_PERMILLE_MIN = 10  # from which a GPU is in use
WARNED_US_MAX = 300_000_000  # before the end


def warned_after_us(idle_us: int) -> int:
    """After how long without use a warning is due that it ends after `idle_us`."""
    return idle_us - min(WARNED_US_MAX, idle_us // 5)


def stage_of(unused_us: int, idle_us: int) -> int:
    """2 when its time is up, 1 when it is warned of, 0 when it is used."""
    return (unused_us >= warned_after_us(idle_us)) + (unused_us >= idle_us)


class WorkspaceSeen(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="workspace.seen.v1"):
    """How a running workspace was used until `at_us`: recorded when it was not used for long enough
    for a warning, or for its end, and when it was used after a warning.

    It was watched without a gap since `watched_us`. Somebody last used it, or a program in it last
    reported something else than before, at `used_at_us`; one of its GPUs was last in use at
    `busy_at_us` (0: not since then), and since it was last used none was busier than
    `busy_permille`.
    """

    owner: ClassVar[str] = "metrics"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = (
        "job", "project", "attempt", "at_us", "watched_us", "used_at_us", "busy_at_us",
        "busy_permille",
    )  # fmt: skip
    job: str
    project: str
    attempt: int
    at_us: int
    watched_us: int
    used_at_us: int = 0
    busy_at_us: int = 0
    busy_permille: int = 0

    @property
    def unused_us(self) -> int:
        """For how long nothing used it."""
        return max(0, self.at_us - max(self.watched_us, self.used_at_us, self.busy_at_us))


class WorkspaceWarned(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="workspace.warned.v1"
):
    """The workspace was not used for `unused_us` and ends after `idle_us` of that, so soon."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "job/{job}"
    public: ClassVar[tuple[str, ...]] = (
        "job", "project", "unused_us", "idle_us", "ends_at_us", "message",
    )  # fmt: skip
    job: str
    project: str
    unused_us: int
    idle_us: int
    ends_at_us: int
    message: str
