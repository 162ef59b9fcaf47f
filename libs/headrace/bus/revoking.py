"""Whose logins the bus refuses although they have not expired: keys that the account revokes.

Rule: the server keeps an account's revocations in memory. It is told them whenever they change and
whenever it was reached anew, over the system account, which is allowed to do nothing else; and again
until it took them, for it passes over accounts that nobody has signed in to since it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import msgspec

from headrace.bus import credentials
from headrace.bus.interface import BusError, Message

SETTLE_S = 2.0  # whoever is refused hears first, from others, that it was deleted
LOOK_S = 1.0  # between two looks at whether the server was reached anew, or takes them now
RETRY_S_FIRST, RETRY_S_MAX = 1.0, 60.0
ANSWER_S = 5.0

PASSED_OVER = "skipped"  # in what nats-server answers of an account that is not loaded

_LOG = logging.getLogger("headrace.bus")


class _Said(msgspec.Struct):
    code: int = 0
    message: str = ""
    description: str = ""


class _Answer(msgspec.Struct):
    """What a server makes of claims (nats-server, `ServerAPIClaimUpdateResponse`)."""

    data: _Said | None = None
    error: _Said | None = None


class Server(Protocol):
    """A connection to the server: `reconnects` among its counters says when it is another."""

    counters: Counter[str]

    async def request(self, subject: str, data: bytes, *, timeout_s: float) -> Message: ...

    async def close(self) -> None: ...


class Revoker:
    """Keeps one server told. `connect` signs in to the system account."""

    def __init__(
        self, connect: Callable[[], Awaitable[Server]], *, operator_seed: str, account_seed: str
    ) -> None:
        self._connect = connect
        self._operator_seed, self._account = operator_seed, credentials.public_key(account_seed)
        self._keys: tuple[str, ...] = ()
        self._changed = asyncio.Event()

    def refuse(self, keys: Iterable[str]) -> None:
        """Let nobody with these public keys in, and everybody else who may."""
        wanted = tuple(sorted(keys))
        if wanted != self._keys:
            self._keys = wanted
            self._changed.set()

    async def run(self) -> None:
        """Tell the server, for ever; nothing is done before there is something to refuse."""
        await self._changed.wait()
        await asyncio.sleep(SETTLE_S)
        retry_s = RETRY_S_FIRST
        while True:
            try:
                await self._keep_told(await self._connect())
            except BusError as error:
                _LOG.warning("revoked keys not told, again in %d s error=%s", retry_s, error)
                await asyncio.sleep(retry_s)
                self._changed.set()
                retry_s = min(retry_s * 2, RETRY_S_MAX)

    async def _keep_told(self, bus: Server) -> None:
        reached = -1
        try:
            while True:
                if self._changed.is_set() or reached != bus.counters["reconnects"]:
                    self._changed.clear()
                    reconnects = bus.counters["reconnects"]
                    reached = reconnects if await self._tell(bus) else -1
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._changed.wait()
                    await asyncio.sleep(SETTLE_S)
        finally:
            await bus.close()

    async def _tell(self, bus: Server) -> bool:
        """Whether the server took them; it need not as long as nobody is signed in."""
        jwt = credentials.account_jwt(
            self._operator_seed,
            self._account,
            credentials.ACCOUNT,
            streams=True,
            revoked=self._keys,
        )
        subject = credentials.claims_subject(self._account)
        answer = _answer_of(await bus.request(subject, jwt.encode(), timeout_s=ANSWER_S))
        if answer.error is not None:
            raise BusError(f"the server refuses them: {answer.error.description}")
        if answer.data is not None and PASSED_OVER in answer.data.message:
            return False
        _LOG.info("revoked keys told count=%d", len(self._keys))
        return True


def _answer_of(message: Message) -> _Answer:
    try:
        return msgspec.json.decode(message.data, type=_Answer)
    except msgspec.MsgspecError as error:
        raise BusError(f"the server's answer cannot be read: {error}") from None
