"""What admission does outside: it drops the keys of erased projects, tells webhooks, and has the bus
refuse nodes and publishers that were deleted.

Rule: a key is dropped until the log says that it was; a key that a project made afterwards stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from headrace.admission.courier import Courier
from headrace.admission.requests import Requests
from headrace.admission.state import State
from headrace.bus.handling import end
from headrace.bus.revoking import Revoker
from headrace.events import Entry
from headrace.events.access import (
    ProjectErased,
    ProjectKeysDropped,
    PublisherCreated,
    PublisherDeleted,
)
from headrace.events.members import MemberAdmitted
from headrace.events.nodes import NodeChanged
from headrace.events.queues import QueueDeleted
from headrace.events.webhooks import WebhookConfigured, WebhookDeleted, WebhookStopped
from headrace.runtime.service import Runtime
from headrace.store.interface import StoreError

RETRY_S = 0.5

_HOOKS = (WebhookConfigured, WebhookDeleted, WebhookStopped, QueueDeleted)

_LOGINS = (NodeChanged, MemberAdmitted, PublisherCreated, PublisherDeleted)

_LOG = logging.getLogger("headrace.admission")


class AdmissionShell:
    """Erases projects, and keeps the courier of webhooks."""

    def __init__(self, requests: Requests, revoker: Revoker | None = None) -> None:
        self._requests, self._revoker = requests, revoker
        self._revoking: asyncio.Task[None] | None = None
        self._runtime: Runtime | None = None
        self._courier: Courier | None = None

    async def lead(self, runtime: Runtime) -> None:
        """Go on where the leader before may have stopped."""
        self._runtime = runtime
        self._requests.keys(runtime).forget()
        self._courier = Courier(runtime, self._requests.keys(runtime))
        self._courier.follow()
        if self._revoker is not None:
            self._revoker.refuse(_refused(runtime.state))
            self._revoking = asyncio.create_task(self._revoker.run())
        for project, erased_at in list(runtime.state.erasing.items()):
            await self._drop(runtime, project, erased_at)

    async def committed(self, entries: Sequence[Entry]) -> None:
        """Drop the keys of what was decided to be erased; see to webhooks that changed."""
        runtime = self._runtime
        if self._courier is not None and any(isinstance(e.event, _HOOKS) for e in entries):
            self._courier.follow()
        logins = any(isinstance(e.event, _LOGINS) for e in entries)
        if logins and runtime is not None and self._revoker is not None:
            self._revoker.refuse(_refused(runtime.state))
        for entry in entries:
            event = entry.event
            if runtime is not None and isinstance(event, ProjectErased):
                await self._drop(runtime, event.project, entry.position)
            elif runtime is not None and isinstance(event, ProjectKeysDropped):
                self._requests.keys(runtime).forget()  # what was read while it was dropped

    async def close(self) -> None:
        """Leadership ended."""
        self._runtime = None
        if self._revoking is not None:
            await end(self._revoking)
            self._revoking = None
        if self._courier is not None:
            await self._courier.close()
            self._courier = None

    async def _drop(self, runtime: Runtime, project: str, erased_at: int) -> None:
        while True:
            try:
                await self._requests.keys(runtime).drop(project)
            except StoreError as error:
                _LOG.warning("keys not dropped yet project=%s error=%s", project, error)
                await asyncio.sleep(RETRY_S)
            else:
                runtime.record(ProjectKeysDropped(project=project, erased_at=erased_at))
                return


def _refused(state: State) -> list[str]:
    """The keys that the bus lets in no more."""
    return [*state.revoked, *state.deleted]
