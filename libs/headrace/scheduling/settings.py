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
    growth_evicts: bool = True  # whether others are evicted so that a gang gets above its minimum
    usage_strength: int = 0
    usage_min_runtime_us: int = 0  # what has run shorter is not taken for what others used lately
    max_duration_us: int = 86_400_000_000  # of a gang that has none of its own
    release_us: int = 60_000_000  # what is being released is gone after that
    reserve_after_us: int = 600_000_000  # a gang that has waited longer gets a reservation
    reservations_max: int = 8
    reserve_steps_max: int = 600  # ends looked at for reservations, in one turn
    steps_max: int = 20_000  # evictions tried for one gang: more would make a turn too long
