"""What admission does outside: it drops the keys of erased projects.

Rule: erasing is repeated whenever leadership begins, so that none is forgotten; a project's key made
after its erasure stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.admission.requests import Requests
from headrace.events import Entry
from headrace.events.access import ProjectErased
from headrace.runtime.service import Runtime
from headrace.vault.project_keys import ProjectKeys


class AdmissionShell:
    """Erases projects."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._keys: ProjectKeys | None = None

    async def lead(self, runtime: Runtime) -> None:
        """Erase again what has no job since: a crash may have come before the first time."""
        self._keys = self._requests.keys(runtime)
        self._keys.forget()
        for project in runtime.state.erased:
            if not runtime.state.live_of.get(project):
                await self._keys.drop(project)

    async def committed(self, entries: Sequence[Entry]) -> None:
        """Erase what was decided to be erased."""
        for entry in entries:
            if isinstance(entry.event, ProjectErased) and self._keys is not None:
                await self._keys.drop(entry.event.project)

    async def close(self) -> None:
        """Nothing is held."""
