"""In which order a bounded decision looks at the work of several projects.

Rule: pure. Round robin: one of each project, then the next of each, each project's own in their
order. However much one project has waiting, the first of another is among the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


def round_robin(lines: Mapping[str, Iterable[T]]) -> Iterator[T]:
    """The items of all lines; a line that is empty is passed over."""
    left = deque(iter(line) for line in lines.values())
    while left:
        line = left.popleft()
        for item in line:
            yield item
            left.append(line)
            break
