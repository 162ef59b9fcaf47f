"""What the gateway answers about use and its cost."""

from __future__ import annotations

import msgspec


class UsageRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """GPU time (µs of whole GPUs) and what it cost, in millionths of the currency. Empty are those
    of `day` (UTC), `project`, `user`, `model` and `pool` that it was not asked by.
    """

    day: str = ""
    project: str = ""
    user: str = ""
    model: str = ""
    pool: str = ""
    gpu_us: int = 0
    cost_micro: int = 0
    currency: str = ""
