"""Durable consumers that the platform keeps for others: made, asked and acknowledged in their name.

Rule: nobody outside gets a right on a JetStream subject. The server sends what is pulled, and the
answer to an acknowledgement, to whatever subject the sender names, with its own rights: whoever may
pull can have it delete a stream (`$JS.API.STREAM.DELETE.…` as the reply subject is enough).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from datetime import UTC, datetime

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

ACK_WAIT_S = 60.0  # what was not acknowledged by then comes again
UNACKNOWLEDGED_MAX = 1_000  # of one consumer
LIST_S = 5.0
NOBODY = "503"  # the status with which the server says that nobody listens
_TOKEN = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20}){4}")  # deliveries, sequences, time, pending


class Kept(msgspec.Struct, frozen=True):
    """A message of a stream, and the `token` with which it is acknowledged."""

    token: str
    data: bytes
    headers: dict[str, str]


class Lost(Exception):
    """There is no such consumer now."""


class Durables:
    """The durable consumers on one stream. Raises the library's errors, and `OSError`."""

    def __init__(self, client: Client, context: JetStreamContext, stream: str) -> None:
        self._client, self._context, self._stream = client, context, stream

    async def ensure(self, name: str, subject: str, since_us: int) -> None:
        """Make it, to hear what was stored from then on, or leave it as it is."""
        since = datetime.fromtimestamp(since_us / 1e6, UTC)
        config = ConsumerConfig(
            durable_name=name,
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=since,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=UNACKNOWLEDGED_MAX,
            max_deliver=-1,
            filter_subject=subject,
        )
        await self._context.add_consumer(self._stream, config)

    async def delete(self, name: str) -> None:
        """Forget it."""
        with contextlib.suppress(NotFoundError):
            await self._context.delete_consumer(self._stream, name)

    async def names(self) -> set[str]:
        """Those that there are."""
        found: set[str] = set()
        subject = f"$JS.API.CONSUMER.NAMES.{self._stream}"
        while True:
            ask = json.dumps({"offset": len(found)}).encode()
            said = json.loads((await self._client.request(subject, ask, timeout=LIST_S)).data)
            page = said.get("consumers") or []
            found.update(page)
            if not page or len(found) >= said["total"]:
                return found

    async def next(self, name: str, most: int, wait_s: float) -> list[Kept]:
        """Those that come next, up to `most`; none when none comes in time. Raises `Lost`."""
        inbox = self._client.new_inbox()
        heard = await self._client.subscribe(inbox)
        try:
            ask: dict[str, object] = {"batch": most, "no_wait": True}
            found = await self._pulled(heard, inbox, name, ask, LIST_S)
            if not found:
                ask = {"batch": 1, "expires": int(wait_s * 1e9)}
                found = await self._pulled(heard, inbox, name, ask, wait_s + LIST_S)
            return found
        finally:
            with contextlib.suppress(NatsError, OSError):
                await heard.unsubscribe()

    async def acknowledge(self, name: str, token: str) -> None:
        """It was taken and comes no more. Raises `ValueError` for what is no token."""
        if not _TOKEN.fullmatch(token):
            raise ValueError("is not what came with an event")
        await self._client.publish(f"$JS.ACK.{self._stream}.{name}.{token}", b"+ACK")

    async def _pulled(
        self, heard: object, inbox: str, name: str, ask: dict[str, object], wait_s: float
    ) -> list[Kept]:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{name}"
        await self._client.publish(subject, json.dumps(ask).encode(), reply=inbox)
        most = int(str(ask["batch"]))
        found: list[Kept] = []
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            async with asyncio.timeout(wait_s):
                while len(found) < most:
                    message: Msg = await heard.next_msg(timeout=None)  # type: ignore[attr-defined]
                    if not message.reply:  # the server's word that there are no more, or nobody
                        if (message.headers or {}).get("Status") == NOBODY:
                            raise Lost(name)
                        break
                    found.append(self._kept(name, message))
        return found

    def _kept(self, name: str, message: Msg) -> Kept:
        token = message.reply.removeprefix(f"$JS.ACK.{self._stream}.{name}.")
        return Kept(token=token, data=message.data, headers=dict(message.headers or {}))
