"""What a program takes from its surroundings, given by a seed: clocks and chance.

Rule: inside `seeded` every clock is the loop's and every random byte is drawn from the seed, so that
ids, nonces and times are the same for the same seed. The one place that reaches into the standard
library.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace import telemetry

EPOCH_US = 1_790_000_000_000_000  # where every simulated clock begins: a day in 2026


@contextmanager
def seeded(seed: int, now_s: Callable[[], float]) -> Iterator[None]:
    """Clocks read `now_s` (since `EPOCH_US`), and random bytes come from `seed`."""
    chance = random.Random(f"surroundings {seed}")
    begin_ns = EPOCH_US * 1_000

    def now_ns() -> int:
        return round(now_s() * 1e9)

    replaced: list[tuple[object, str, object]] = [
        (os, "urandom", chance.randbytes),
        (random, "_urandom", chance.randbytes),
        (time, "time", lambda: EPOCH_US / 1e6 + now_s()),
        (time, "time_ns", lambda: begin_ns + now_ns()),
        (time, "monotonic", now_s),
        (time, "monotonic_ns", now_ns),
        (time, "clock_gettime", lambda _clock: now_s()),
        (time, "clock_gettime_ns", lambda _clock: now_ns()),
    ]
    kept = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    telemetry.use_random(random.Random(f"traces {seed}"))
    random.seed(f"shared {seed}")
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)
        telemetry.use_random(random.Random())
        random.seed()
