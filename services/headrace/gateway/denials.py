"""Refusals of access, reported so that they are on record.

Rule: at most one event a minute for each who was refused: the first at once, and then how many came
since. Who is not known is told apart by address.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from headrace.bus.subjects import FLEET
from headrace.gateway.asking import Asker
from headrace.gateway.errors import GatewayError

REPEAT_S = 60.0
SUBJECTS_MAX = 1_000  # counted apart at a time; the others are counted together

_LOG = logging.getLogger("headrace.gateway")
_OTHERS = ("", "many others")


class _Seen(msgspec.Struct):
    """What one subject was refused since it was last said."""

    what: str
    scope: str
    count: int


class Denials:
    """Counts and reports, through `asker`."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._reporting: set[asyncio.Task[None]] = set()

    def note(self, user: str, what: str, scope: str = "", address: str = "") -> None:
        """Somebody was refused just now. `user` is empty for who is not known."""
        key = (user, "" if user else address)
        if key not in self._seen and len(self._seen) >= SUBJECTS_MAX:
            key = _OTHERS
        seen = self._seen.get(key)
        if seen is not None:
            seen.what, seen.scope, seen.count = what, scope, seen.count + 1
            return
        self._seen[key] = _Seen(what, scope, 1)
        task = asyncio.create_task(self._report(key, address))
        self._reporting.add(task)
        task.add_done_callback(self._reporting.discard)

    async def _report(self, key: tuple[str, str], address: str) -> None:
        """Say it, and again every minute for as long as there is more."""
        user, _ = key
        while seen := self._seen[key]:
            if not seen.count:
                del self._seen[key]
                return
            body = {"user": user, "address": address, **msgspec.structs.asdict(seen)}
            seen.count = 0
            try:
                await self._asker.ask("access.denied", FLEET, body, actor=user)
            except GatewayError as error:
                _LOG.warning("refusal not on record user=%s error=%s", user, error)
            await asyncio.sleep(REPEAT_S)
