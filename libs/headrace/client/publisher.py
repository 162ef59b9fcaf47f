"""Submitting over the bus, for pipelines that publish events already: `pip install headrace[bus]`.

Rule: CloudEvents, request and reply; without a reply the same request is sent again under the same
key, so that it is one job however often it was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from headrace.client.errors import ClientError, Refused, Unreachable
from headrace.client.model import Answer

if TYPE_CHECKING:
    from nats.aio.client import Client as Nats

CONNECT_S_MAX = (
    10.0  # until the bus has let it in; later it comes back by itself for as long as need be
)
REPLY_S_MAX = 5.0  # of one try
DEADLINE_S = 60.0  # of a request, all tries together
RETRY_S = 0.3
NEXT_S_MAX = 40.0  # the platform waits 30 s for an event
NO_ROOM = "request"  # what is refused when there is no room for one more now
QUEUED_EVENTS_MAX = 10_000  # that came and nobody has taken yet

_log = logging.getLogger(__name__)


class Publisher:
    """A publisher's place on the bus. `credential` is the file that `headrace publisher create`
    wrote, `name` the publisher's, the file's own name by default: it is in every subject and inbox
    that the credential is good for.

    Use it as `async with Publisher(url, "nightly-etl.creds", "ads") as publisher`. Raises
    `ClientError`: `Refused`, `Unreachable`.
    """

    def __init__(self, url: str, credential: str | Path, project: str, name: str = "") -> None:
        self.project, self.name = project, name or Path(credential).stem
        self._url, self._credential = url, str(credential)
        self._bus: Nats | None = None
        self._last_error = ""

    async def __aenter__(self) -> Self:
        import nats
        from nats.errors import Error

        try:
            async with asyncio.timeout(CONNECT_S_MAX):  # by itself it would try for ever
                self._bus = await nats.connect(
                    self._url,
                    user_credentials=self._credential,
                    inbox_prefix=f"_INBOX_pub_{self.project}_{self.name}",
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    error_cb=self._note,
                )
        except (Error, OSError, TimeoutError) as error:
            why = str(error) or self._last_error or type(error).__name__
            raise Unreachable(f"{self._url}: {why}") from error
        return self

    async def _note(self, error: Exception) -> None:
        """In a line, where the library shows where in itself it failed."""
        self._last_error = str(error) or type(error).__name__
        _log.warning("%s: %s", self._url, self._last_error)

    async def __aexit__(self, *_: object) -> None:
        assert self._bus is not None
        await self._bus.close()

    async def submit(self, job: Mapping[str, Any], *, key: str = "", source: str = "") -> Answer:
        """Submit a job file; the answer has the job's id and its position in the log."""
        headers = {
            "ce-id": key or uuid.uuid4().hex,
            "ce-type": "headrace.job.submit.v1",
            "ce-source": source or f"/{self.name}",
            "ce-specversion": "1.0",
        }
        subject = f"headrace.request.{self.project}.{self.name}.job.submit"
        answer = await self._asked(subject, msgspec.json.encode(job), headers)
        if not answer.accepted:
            raise Refused(answer)
        answer.key = headers["ce-id"]
        return answer

    async def outcomes(self, types: str = ">") -> AsyncIterator[dict[str, Any]]:
        """What happens to the project's jobs from now on: `types` such as `job.finished.v1`, or all.
        Events are data without the envelope; their type is under `type`. It ends with the connection.
        """
        from nats.errors import Error

        assert self._bus is not None
        prefix = f"headrace.event.{self.project}."
        heard = await self._bus.subscribe(f"{prefix}{types}", pending_msgs_limit=QUEUED_EVENTS_MAX)
        try:
            async for message in heard.messages:
                data = msgspec.json.decode(message.data)
                yield {"type": message.subject.removeprefix(prefix), **data}
        finally:
            with contextlib.suppress(Error):  # the connection may have ended before
                await heard.unsubscribe()

    async def kept_outcomes(self, *, most: int = 20) -> AsyncIterator[dict[str, Any]]:
        """Everything that happened to the project's jobs since this publisher was made with `--durable`,
        as CloudEvents, and what happens from now on; what was missed comes first. An event is taken
        when the next one is asked for; one that was not comes again, after a minute: its `id` tells.
        So many (`most`) are fetched at a time. Raises `ClientError`.
        """
        taken: list[str] = []
        try:
            while True:
                events = await self._next({"ack": taken, "most": most})
                taken.clear()
                for each in events:
                    yield each["event"]
                    taken.append(each["ack"])
        finally:
            if taken:
                with contextlib.suppress(ClientError):
                    await self._next({"ack": taken, "most": 0})

    async def _next(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        """The events that the durable place has next; without an answer the question is repeated."""
        from nats.errors import Error

        assert self._bus is not None
        subject, body = (
            f"headrace.outcomes.{self.project}.{self.name}.next",
            msgspec.json.encode(question),
        )
        deadline_s = asyncio.get_running_loop().time() + DEADLINE_S
        while True:
            try:
                reply = await self._bus.request(subject, body, timeout=NEXT_S_MAX)
                answer = msgspec.json.decode(reply.data)
                if "events" in answer:
                    return list(answer["events"])
                failure = str(answer.get("message", ""))
            except (Error, TimeoutError) as error:
                failure = str(error) or type(error).__name__
            if asyncio.get_running_loop().time() > deadline_s:
                raise Unreachable(f"{self._url}: {failure}")
            await asyncio.sleep(RETRY_S)

    async def _asked(self, subject: str, body: bytes, headers: dict[str, str]) -> Answer:
        from nats.errors import Error, NoRespondersError

        assert self._bus is not None
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + DEADLINE_S
        failure = ""
        while loop.time() < deadline_s:
            try:
                reply = await self._bus.request(
                    subject, body, timeout=REPLY_S_MAX, headers=dict(headers)
                )
                answer = msgspec.json.decode(reply.data, type=Answer)
                if answer.accepted or (answer.refusal or {}).get("field") != NO_ROOM:
                    return answer
                failure = answer.message  # nothing became of it: too many requests wait
            except NoRespondersError:
                failure = "admission does not run"
            except (Error, TimeoutError) as error:
                failure = str(error) or type(error).__name__
            except msgspec.DecodeError as error:
                raise ClientError(f"the answer cannot be read: {error}") from error
            await asyncio.sleep(RETRY_S)
        raise Unreachable(f"{self._url}: {failure}; the key to repeat it with: {headers['ce-id']}")
