"""Server-sent events, encoded once for all who are to see the same.

Rule: what somebody is sent depends on what they want, on what they may see, and on the position
they are at; whoever has the same three is sent the same bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.client.model import Happening
from headrace.gateway.follower import Follower
from headrace.gateway.happenings import Wanted, happening

if TYPE_CHECKING:
    from headrace.gateway.caller import Caller

CHUNKS_MAX = 64  # kept; the oldest are forgotten first

_ENCODE = msgspec.json.Encoder().encode


class Chunk(NamedTuple):
    """Events up to `position`, as they are sent; possibly none that are wanted."""

    position: int
    data: bytes


class Chunks:
    """The chunks of one gateway."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._made: dict[tuple[int, Wanted, Hashable], Chunk] = {}

    async def after(self, position: int, wanted: Wanted, by: Caller) -> Chunk | None:
        """What comes next, as far as it is folded; None when nothing does. Raises `Unavailable`."""
        key = (position, wanted, by.view)
        made = self._made.get(key)
        if made is not None:
            return made
        stored = await self._follower.after(position)
        if not stored:
            return None
        match, sight = wanted.filter(), by.sight
        data = b"".join(
            _sse(sight.happening(happening(event)))
            for event in stored
            if match(event) and by.hears(event.project)
        )
        made = self._made[key] = Chunk(stored[-1].position, data)
        if len(self._made) > CHUNKS_MAX:
            del self._made[next(iter(self._made))]
        return made


def _sse(event: Happening) -> bytes:
    data = _ENCODE(event)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.position, event.type.encode(), data)
