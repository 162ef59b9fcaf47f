"""What every queue used lately, one meter each.

Rule: a meter changes only when its queue gets or gives back devices; who judges by it looks at
windows that have closed, so that it is the same however often it is asked in between. Time never
goes back.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.scheduling.usage import HALF_LIFE_S, Meter, part_of, window_ms_of

MS_US = 1000


class Meters(msgspec.Struct, kw_only=True, omit_defaults=True):
    """By queue; `at_ms` is when any of them changed last, `window_ms` how long usage is the same."""

    by_queue: dict[str, Meter] = {}
    at_ms: int = 0
    window_ms: int = window_ms_of(HALF_LIFE_S)

    def add(self, queues: Iterable[str], milli: int, at_us: int) -> None:
        """From this moment on these queues use so much more."""
        now_ms = self._moment_ms(at_us)
        for queue in queues:
            meter = self.by_queue.setdefault(queue, Meter(at_ms=now_ms))
            meter.add(milli, now_ms, self.window_ms)

    def release_all(self, at_us: int) -> None:
        """From this moment on nobody uses anything."""
        now_ms = self._moment_ms(at_us)
        for meter in self.by_queue.values():
            meter.add(-meter.milli, now_ms, self.window_ms)

    def retime(self, half_life_s: int, at_us: int) -> None:
        """The half-life is another one from this moment on."""
        now_ms, window_ms = self._moment_ms(at_us), window_ms_of(half_life_s)
        for meter in self.by_queue.values():
            meter.add(0, now_ms, self.window_ms)
            meter.retime(self.window_ms, window_ms)
        self.window_ms = window_ms

    def used(self, queues: Iterable[str], total_milli: int, now_us: int) -> dict[str, int]:
        """What of that total each of these queues used lately, in parts of `USAGE_ONE`."""
        window, length_ms = self.window_at(now_us), self.window_ms
        meters = {queue: self.by_queue[queue] for queue in queues if queue in self.by_queue}
        return {
            queue: part_of(meter.closed_by(window, length_ms), total_milli, length_ms)
            for queue, meter in meters.items()
        }

    def window_at(self, now_us: int) -> int:
        """The window that is open now; never one before the log's."""
        return max(now_us // MS_US, self.at_ms) // self.window_ms

    def window_of(self, at_us: int) -> int:
        """The window that this moment is in."""
        return at_us // MS_US // self.window_ms

    def closes_us(self, window: int) -> int:
        """When this window closes."""
        return (window + 1) * self.window_ms * MS_US

    def _moment_ms(self, at_us: int) -> int:
        self.at_ms = max(self.at_ms, at_us // MS_US)
        return self.at_ms
