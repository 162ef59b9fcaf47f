"""`/v1/events`: the log from a position on, as pages of JSON or as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from litestar import get
from litestar.params import FromQuery, HeaderParameter, QueryParameter
from litestar.response import Response, Stream

from headrace.client.model import MAX_PAGE, Happening, HappeningPage
from headrace.documents.nearest import nearest
from headrace.events import CATALOGUE
from headrace.gateway.caller import LOOKS_S, By, Caller, may
from headrace.gateway.errors import BadRequest
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.happenings import Filter, Wanted, happening
from headrace.gateway.letting_in import position_of, read_up_to
from headrace.store.chained import read_one
from headrace.store.interface import Store

HEARTBEAT_S = 10.0  # so that both sides notice when the other has gone
BEAT_S = 0.1  # who was just sent something is sent what comes within it at once
EVENT_S = 0.002  # of one job's stream: so long for each event just read, up to a beat
SCANNED_EVENTS_MAX = 50_000  # for one page of JSON
INDEX_DIGITS_MAX = 9
SSE = "text/event-stream"


@get(
    "/events",
    summary="Events after a position; with Accept: text/event-stream, for ever",
    opt=may("read", "event"),
)
async def events(
    *,
    gateway: Gate,
    by: By,
    after: Annotated[int, QueryParameter(ge=0)] = 0,
    since_us: FromQuery[int] = 0,
    job: FromQuery[str] = "",
    project: FromQuery[str] = "",
    type_prefix: Annotated[str, QueryParameter(name="type")] = "",
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_PAGE)] = 500,
    accept: Annotated[str, HeaderParameter(name="Accept")] = "",
    last_event_id: Annotated[str, HeaderParameter(name="Last-Event-ID")] = "",
) -> Response[HappeningPage] | Stream:
    """`since_us` begins at a time instead of a position; `Last-Event-ID` goes on after a break."""
    position = after
    if last_event_id:
        position = max(position, position_of("Last-Event-ID", last_event_id))
    elif since_us:
        head = gateway.projection.position
        position = max(position, await position_before(gateway.store, head, since_us))
    await read_up_to(
        gateway, "after", position
    )  # else what comes before it would be left out in silence
    if job:
        found = await by.followed(*_task(job))
        job, position = found.job, max(position, found.position - 1)
    elif project:
        by.check(project)
        by.check_seen(project)
    _check_type(type_prefix)
    wanted = Wanted(job=job, project=project, type_prefix=type_prefix)
    if SSE in accept:
        gateway.streams.check(by.name)
        return Stream(
            _stream(gateway, by, position, wanted),
            media_type=SSE,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
    with gateway.pages.taken(by.name):
        return Response(await _page(gateway, by, position, wanted.filter(), limit))


def _task(job: str) -> tuple[str, int | None]:
    """A job's name, and of a task its index."""
    name, slash, index = job.partition("/")
    if slash and not (index.isdecimal() and len(index) <= INDEX_DIGITS_MAX):
        raise BadRequest("job", job, "is no job", f"{name}/0 is a task")
    return name, int(index) if slash else None


def _check_type(prefix: str) -> None:
    """Raise `BadRequest` when no event's type begins so."""
    if not any(tag.startswith(prefix) for tag in CATALOGUE):
        near = nearest(prefix.partition(".")[0], sorted({t.partition(".")[0] for t in CATALOGUE}))
        instead = f"did you mean {near}?" if near else "such as job. or gang.placed"
        raise BadRequest("type", prefix, "no event's type begins so", instead)


async def position_before(store: Store, head: int, at_us: int) -> int:
    """The last position recorded before `at_us` (0: none), by bisection."""
    low, high = 0, head
    while low < high:
        middle = (low + high + 1) // 2
        event = await read_one(store, middle)
        if event.recorded_at_us < at_us:
            low = middle
        else:
            high = middle - 1
    return low


async def _page(
    gateway: Gateway, by: Caller, position: int, wanted: Filter, limit: int
) -> HappeningPage:
    found: list[Happening] = []
    sight = by.sight
    stop = position + SCANNED_EVENTS_MAX
    while position < stop and (stored := await gateway.follower.after(position)):
        for event in stored:
            position = event.position
            if wanted(event) and by.hears(event.project):
                found.append(sight.happening(happening(event)))
                if len(found) == limit:
                    return HappeningPage(events=found, position=position)
    return HappeningPage(events=found, position=position, is_end=position < stop)


async def _stream(
    gateway: Gateway, by: Caller, position: int, wanted: Wanted
) -> AsyncIterator[bytes]:
    with gateway.streams.taken(by.name):
        async for piece in _pieces(gateway, by, position, wanted):
            yield piece


async def _pieces(
    gateway: Gateway, by: Caller, position: int, wanted: Wanted
) -> AsyncIterator[bytes]:
    follower, now_s = gateway.follower, asyncio.get_running_loop().time
    yield b": headrace events\n\n"
    silent_s = 0.0
    while not follower.closing and by.holds():
        chunk = await gateway.chunks.after(position, wanted, by)
        if chunk is None:
            silent_s = 0.0 if await follower.changed(LOOKS_S) else silent_s + LOOKS_S
            if silent_s >= HEARTBEAT_S:
                silent_s = 0.0
                yield b"id: %d\n\n" % position
            continue
        read, position = chunk.position - position, chunk.position
        if chunk.data:
            yield chunk.data
        if position >= follower.projection.position:
            await asyncio.sleep(_pause_s(read, wanted, now_s()))


def _pause_s(read: int, wanted: Wanted, now_s: float) -> float:
    """How long to wait before more is sent. Many follow all that happens: all of them on the same
    beat, so that what they are sent is encoded once. Few follow one job, and somebody waits for each
    step of it: they wait as long as what they were just sent was much.
    """
    return min(BEAT_S, read * EVENT_S) if wanted.job else BEAT_S - now_s % BEAT_S
