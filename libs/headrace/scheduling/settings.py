"""How turns are taken: what administrators choose, in the scheduling core's terms."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn is taken. Durations in microseconds."""

    policy: str = "binpack"  # which machine is taken: a name in POLICIES
    cpu_policy: str = ""  # for tasks without GPUs, if it is another one
    policies: Mapping[str, str] = {}  # by pool, where it is another one
    spread_devices: bool = False  # shares on the emptiest device instead of the fullest
    levels: Mapping[str, tuple[str, ...]] = {}  # labels of each topology, widest first
    consolidate_after_us: int = 0  # who waits shorter moves nobody
    staleness_grace_us: int = 60_000_000
    usage_strength: int = 0
    steps_max: int = 20_000  # evictions tried for one gang: more would make a turn too long
