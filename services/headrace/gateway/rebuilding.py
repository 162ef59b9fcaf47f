"""What people ask about, folded from the log again and put in the place of what was there.

Rule: the log is the truth. A projection that is not what the log comes to is replaced, and which parts
of it were not is said (invariant I9).
"""

from __future__ import annotations

import asyncio
import time

from litestar import post
from litestar.status_codes import HTTP_200_OK

from headrace.client.rebuilt_model import Rebuilt
from headrace.gateway.caller import By, may
from headrace.gateway.errors import NotReady
from headrace.gateway.evolve import LISTENED, evolve
from headrace.gateway.gateway import Gate
from headrace.gateway.projection import Projection
from headrace.runtime.reader import entry_of
from headrace.store.chained import read_chained
from headrace.store.interface import READ_EVENTS_MAX, Store, Unavailable


@post(
    "/projection/rebuild",
    summary="Fold what is asked about from the log again, and tell whether it was the same",
    status_code=HTTP_200_OK,
    opt=may("rebuild", "platform"),
)
async def rebuild_projection(gateway: Gate, by: By) -> Rebuilt:
    """Answers go on meanwhile. `differs` names what was not as the log has it."""
    by.check()
    began_s = time.monotonic()
    follower = gateway.follower
    anew = Projection()
    while anew.position < gateway.projection.position:
        try:
            await fold_to(gateway.store, anew, gateway.projection.position)
        except Unavailable as error:
            raise NotReady("the log cannot be reached now") from error
    live = follower.projection  # nothing is awaited from here on: both stand at one position
    differs = [
        name for name in Projection.__struct_fields__ if getattr(live, name) != getattr(anew, name)
    ]
    follower.projection = anew
    seconds = time.monotonic() - began_s
    return Rebuilt(position=anew.position, took_us=int(seconds * 1_000_000), differs=differs)


async def fold_to(store: Store, projection: Projection, position: int) -> None:
    """Fold the log up to a position, page by page. Raises `Unavailable` and `Forked`."""
    while projection.position < position:
        limit = min(READ_EVENTS_MAX, position - projection.position)
        for event in await read_chained(store, projection.position, limit):
            if event.type in LISTENED:
                evolve(projection, entry_of(event))
            else:
                projection.position, projection.at_us = event.position, event.recorded_at_us
        await asyncio.sleep(0)  # others are answered in between
