"""Asks the service that owns the noun, over the bus, until it answers.

Rule: a request is repeated under its key until there is an answer or the deadline has passed; then
nobody knows what became of it, and the asker is told the key to repeat it with.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from headrace import telemetry
from headrace.bus import subjects
from headrace.bus.interface import Bus, NoReply, NotConnected
from headrace.client.model import Answer
from headrace.gateway.batching import Batching
from headrace.gateway.errors import BadRequest, NoAnswer, NoBus, NotNow
from headrace.scheduling.explanation import Explanation

ANSWER_S_MAX = 15.0  # in all; a takeover takes 3 s
REPLY_S_MAX = 4.0  # of one try
UNSENT_S_MAX = 1.0  # without a bus; it is back within that when it was only restarted
RETRY_S = 0.2
KEY_LENGTH_MAX = 200

_ANSWERS = msgspec.json.Decoder(Answer)
_WHYS = msgspec.json.Decoder(Explanation | None)


class Asker:
    """Sends requests in the name of who asked, and decodes their answers."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._requests = Batching(bus)

    async def ask(
        self,
        verb: str,
        project: str,
        body: bytes | dict[str, Any],
        *,
        actor: str,
        via: str = "",
        key: str = "",
        traceparent: str = "",
    ) -> Answer:
        """The answer to one request of `actor`, for whom the service account `via` asks; it carries
        the key. Raises `BadRequest`, `NoAnswer`, `NotNow`.
        """
        # each asker is a source of their own: nobody uses up a key, or is answered, of another
        key = key or uuid.uuid4().hex
        subject = _subject(project, verb)
        _check_key(key)
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        with telemetry.span(f"ask {verb}", traceparent, kind="producer") as span:
            headers = {
                "ce-id": key,
                "ce-type": f"headrace.{verb}.v1",
                "ce-source": f"/gateway/{quote(f'{actor} via {via}' if via else actor)}",
                "ce-specversion": "1.0",
                "traceparent": span.traceparent,
                "Headrace-Actor": actor,
            }
            if via:
                headers["Headrace-Via"] = via
            request = partial(self._requests.request, subject, data, headers)
            answer = _ANSWERS.decode(await _until_answered(key, request))
        answer.key = key
        if answer.again_after_s:
            raise NotNow(answer)
        return answer

    def ask_again(self) -> None:
        """Another leader listens now: what has no answer yet is asked again at once."""
        self._requests.give_up()

    async def why(self, job: str) -> Explanation | None:
        """Why a live job is where it is; None when placement does not know it. Raises `NoAnswer`."""

        async def request(timeout_s: float) -> bytes:
            return (await self._bus.request(subjects.WHY, job.encode(), timeout_s=timeout_s)).data

        found: Explanation | None = _WHYS.decode(await _until_answered(job, request))
        return found


async def _until_answered(key: str, request: Callable[[float], Awaitable[bytes]]) -> bytes:
    """The answer to a request, given how long one try may take. Raises `NoBus` when none was sent for
    a while, `NoAnswer`.
    """
    now_s: Callable[[], float] = asyncio.get_running_loop().time
    deadline_s, unsent_until_s = now_s() + ANSWER_S_MAX, now_s() + UNSENT_S_MAX
    was_sent = False
    while (left_s := deadline_s - now_s()) > 0:
        asked_s = now_s()
        try:
            return await request(min(left_s, REPLY_S_MAX))
        except (NoReply, NotConnected) as error:
            was_sent = was_sent or isinstance(error, NoReply)
            if not was_sent and now_s() > unsent_until_s:
                raise NoBus from error
            await asyncio.sleep(max(0.0, RETRY_S - (now_s() - asked_s)))
    raise NoAnswer(key)


def _subject(project: str, verb: str) -> str:
    try:
        return subjects.gateway(project, verb)
    except ValueError as error:
        raise BadRequest(
            "project", project, str(error).partition(" must ")[2] or str(error)
        ) from error


def _check_key(key: str) -> None:
    if len(key) > KEY_LENGTH_MAX or not key.isprintable() or not key.isascii():
        rule = f"an idempotency key has 1 to {KEY_LENGTH_MAX} printable ASCII characters"
        raise BadRequest("Idempotency-Key", key[:20], rule)
