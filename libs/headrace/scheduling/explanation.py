"""Why a job is where it is, as data: the same wherever it is computed, served or shown.

Rule: nothing is imported here but the Struct's own library, so that a small client may read it.
"""

from __future__ import annotations

import msgspec


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rule that keeps a job waiting, its numbers and names, and the line a person reads.

    `rule` is one of held, unknown-project, no-workers, limit, quota, no-such-gpu, topology, no-room,
    releasing, reserved, next, stopping, running. `excluded` counts the nodes on which it cannot be
    by what excludes them; `kept` the gangs that hold what it would take by why they may keep it; `sooner` is a
    smaller request that would start now; `starts_by_us` is when it starts at the latest, if that is
    known. It was true at `at_us`, `position` in the log.
    """

    rule: str
    text: str
    job: str = ""
    project: str = ""
    position: int = 0
    at_us: int = 0
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}
    excluded: dict[str, int] = {}
    kept: dict[str, int] = {}
    quota: str = ""
    evicts: str = ""
    sooner: str = ""
    starts_by_us: int = 0
