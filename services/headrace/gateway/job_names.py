"""Ids of jobs by how they begin: what is asked for by a name that is none costs no look at every job.

Rule: ids are sorted anew when somebody asks and many have come since; the few that came later are looked
through. Who has gone may still be in it, so that what is found is looked up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

NEW_MAX = 2_000  # that are looked through


class JobNames:
    """Ids of jobs, not of tasks. Equal to any other: what is in it follows from the jobs there are."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._sorted: list[str] = []
        self._new: list[str] = []
        self._is_stale = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobNames)

    def add(self, name: str) -> None:
        """There is a new one."""
        if self._is_stale or "/" in name:
            return
        self._new.append(name)
        if len(self._new) > NEW_MAX:
            self._new.clear()
            self._is_stale = True

    def beginning_with(self, prefix: str, everybody: Callable[[], Iterable[str]]) -> Iterator[str]:
        """Those, each once. `everybody` gives all that there are, if they are to be sorted anew."""
        if self._is_stale:
            self._sorted = sorted(name for name in everybody() if "/" not in name)
            self._new, self._is_stale = [], False
        for at in range(bisect_left(self._sorted, prefix), len(self._sorted)):
            if not self._sorted[at].startswith(prefix):
                break
            yield self._sorted[at]
        yield from (name for name in self._new if name.startswith(prefix))
