"""Those who ask: they repeat a request with the same key until they have its answer.

Rule: what they were told is accepted is kept, to be compared with the log at the end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bus import subjects
from headrace.bus.interface import BusError, Message
from headrace.bus.memory import MemoryBus
from headrace.runtime.inbox import GATEWAY_SOURCE
from headrace.simulation.asking import Asked

if TYPE_CHECKING:
    from headrace.simulation.world import World

PUBLISHER, SOURCE = "pipeline", "/simulation"
REPLY_S = 2.0
OUTCOME_S = 5.0  # a posted request's answer comes as an event
AGAIN_S = 0.5


class People:
    """Everybody outside, on one connection."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bus = MemoryBus(world.broker, "people")
        self._outcomes: dict[tuple[str, str], asyncio.Future[dict[str, Any]]] = {}
        self._answered: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.answers: dict[tuple[str, str], dict[str, Any]] = {}  # by project and key
        self.unanswered: dict[str, None] = {}
        self._sources: dict[str, str] = {}  # by key

    @property
    def accepted(self) -> list[tuple[str, str, str]]:
        """The requests that were answered with a position of the log, as the log names them: what
        concerns the fleet is of no project.
        """
        return [
            ("" if project == subjects.FLEET else project, self._sources[key], key)
            for (project, key), answer in self.answers.items()
            if answer["position"]
        ]

    async def listen(self) -> None:
        """Hear what becomes of posted requests."""
        await self._bus.subscribe("headrace.event.>", self._outcome)

    def ask(self, asked: Asked) -> asyncio.Task[None]:
        """Ask at the right time, and go on until there is an answer."""
        self.unanswered[asked.key] = None
        through_gateway = asked.user and not asked.is_posted
        source = f"{GATEWAY_SOURCE}{asked.user}" if through_gateway else SOURCE
        self._sources[asked.key] = source
        loop = self._world.loop
        self._answered[asked.key] = loop.create_future()
        return loop.create_task(self._asking(asked))

    async def _asking(self, asked: Asked) -> None:
        await asyncio.sleep(max(0.0, asked.at_s - self._world.loop.time()))
        body = dict(asked.body)
        before = await self._answered[asked.after] if asked.after else {}
        if asked.verb in ("job.cancel", "job.pause", "job.resume"):
            body["job"] = before.get("job", "no-such-job")
        if "after" in body:
            earlier = before.get("job", "no-such-job")
            body["after"] = [{"job": earlier, **entry} for entry in body["after"]]
        answer = await self._until_answered(asked, msgspec.json.encode(body))
        if "job" in body:
            answer.setdefault("job", body["job"])
        self.answers[asked.project, asked.key] = answer
        self._answered[asked.key].set_result(answer)
        del self.unanswered[asked.key]

    async def _until_answered(self, asked: Asked, body: bytes) -> dict[str, Any]:
        headers = {
            "ce-id": asked.key,
            "ce-type": f"headrace.{asked.verb}.v1",
            "ce-source": SOURCE,
            "ce-specversion": "1.0",
            "Headrace-Actor": asked.user,
        }
        while True:
            try:
                return await self._try(asked, body, headers)
            except (BusError, TimeoutError):
                await asyncio.sleep(AGAIN_S)

    async def _try(self, asked: Asked, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        if not asked.is_posted:
            subject = subjects.request(asked.project, PUBLISHER, asked.verb)
            if asked.user:
                subject = subjects.gateway(asked.project, asked.verb)
            reply = await self._bus.request(subject, body, headers, REPLY_S)
            answer: dict[str, Any] = msgspec.json.decode(reply.data)
            return answer
        key = (asked.project, asked.key)
        outcome = self._outcomes[key] = self._world.loop.create_future()
        await self._bus.store(subjects.post(asked.project, PUBLISHER, asked.verb), body, headers)
        return await asyncio.wait_for(outcome, OUTCOME_S)

    async def _outcome(self, message: Message) -> None:
        """A decision that carries the key answers; the record of the request itself does not."""
        key = (message.subject.split(".")[2], message.headers.get("ce-correlationid", ""))
        waiting = self._outcomes.get(key)
        event = msgspec.json.decode(message.data)
        if waiting is None or waiting.done() or "requested" in event.get("type", ""):
            return
        waiting.set_result({"accepted": "refusal" not in event, **event})
