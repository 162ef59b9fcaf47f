"""What publishers posted: kept by the bus in a stream for each project, and worked through.

Rule: a stream has the bytes of one project and refuses more (`discard new`), so that no project's
posts take the room of another one's; a message goes when it is answered. Each project's posts are
worked through one after the other, and no project waits for another. The streams are made by the
relay, which is told which projects may post. What the bus keeps it gives a receipt for; what it
gives none for has to be posted again, under the same key.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

import msgspec

from headrace.bus import subjects
from headrace.bus.handling import end
from headrace.bus.interface import (
    Bus,
    BusError,
    Handler,
    StreamSpec,
    StreamState,
    Subscription,
)
from headrace.events import Refusal
from headrace.runtime.limits import Limit, limit_of
from headrace.runtime.pipelines.durable import Durable
from headrace.store.interface import EVENT_BYTES_MAX

POSTS_BYTES_MAX = 16_777_216  # of one project, that wait to be answered
HEADERS_BYTES_MAX = 16_384  # of one message, with its subject
DAY_S = 86_400
TELL_S = 5.0  # how often it is said again who may post: the relay may have started anew
CONSUMER = "inbox"


def bytes_max() -> Limit:
    """What the posts of one project may take."""
    return limit_of("HEADRACE_POSTS_PROJECT_BYTES_MAX", POSTS_BYTES_MAX, least=2 * EVENT_BYTES_MAX)


def stream_of(project: str) -> str:
    """The name of the stream with the project's posts."""
    return f"REQUESTS-{project}"


def spec_of(project: str, most: Limit) -> StreamSpec:
    """The stream with the project's posts."""
    return StreamSpec(
        name=stream_of(project),
        subjects=(subjects.posts_of(project),),
        age_s_max=DAY_S,
        bytes_max=most.value,
        message_bytes_max=EVENT_BYTES_MAX + HEADERS_BYTES_MAX,
        discard_new=True,
        is_work_queue=True,
        acknowledged=False,
        receipts=subjects.receipts_of(project),
    )


def room_refusal(project: str, held: StreamState, most: Limit) -> Refusal | None:
    """What the project is told when its stream, which holds this now, has no room for a post of any
    size.
    """
    if held.bytes + EVENT_BYTES_MAX + HEADERS_BYTES_MAX <= most.value:
        return None
    return Refusal(
        field="post",
        rule=f"{held.messages} posts of project {project} wait, with {held.bytes} bytes of "
        f"{most.value} ({most.set_by}); what has no room is not kept",
        instead="post again, with the same ce-source and ce-id, what got no receipt",
    )


class Posts:
    """Hands each project's posts to `take`, which returns when the message was answered."""

    def __init__(self, take: Handler) -> None:
        self._take = take
        self._projects: frozenset[str] = frozenset()
        self._durables: tuple[Durable, ...] = ()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def open(self, bus: Bus) -> None:
        """Begin; nobody may post until `follow` says who."""
        self._task = asyncio.create_task(self._run(bus))

    async def close(self) -> None:
        """Take no more; what was not answered stays for the next leader."""
        if self._task is not None:
            await end(self._task)
            self._task = None

    def follow(self, projects: Collection[str], durables: tuple[Durable, ...]) -> None:
        """These projects have publishers now, and these of them are durable."""
        if self._projects != projects or self._durables != durables:
            self._projects, self._durables = frozenset(projects), durables
            self._changed.set()

    async def _run(self, bus: Bus) -> None:
        consumers: dict[str, Subscription] = {}
        try:
            while True:
                self._changed.clear()
                projects = self._projects
                with contextlib.suppress(BusError):  # it is said again
                    await bus.publish(subjects.POSTING, msgspec.json.encode(sorted(projects)))
                    await bus.publish(subjects.DURABLE, msgspec.json.encode(self._durables))
                for project in [known for known in consumers if known not in projects]:
                    await consumers.pop(project).stop()
                for project in sorted(projects - consumers.keys()):
                    consumers[project] = await bus.consume(stream_of(project), CONSUMER, self._take)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TELL_S):
                        await self._changed.wait()
        finally:
            for consumer in consumers.values():
                await consumer.stop()
