"""Connections to Postgres that mend themselves, and its errors in the words of the interface.

Rule: nothing here waits without a limit, and a connection that failed in any way other than a
refusal is never used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from headrace.store.interface import (
    Behind,
    ClockStepped,
    Fenced,
    Forked,
    GuardRefused,
    NoRoom,
    NotAllowed,
    StoreError,
    Unavailable,
)

CONNECT_S = 3.0
ACQUIRE_S = 5.0  # for one's turn on a busy connection
LOCK_S = 2.0  # for another append to commit
STATEMENT_S = 5.0
ANSWER_GRACE_S = 1.0  # the server's own timeouts come first, because they leave the connection good
CLOSE_S = 2.0

_REFUSALS: dict[str, type[StoreError]] = {
    "ZH001": Fenced,
    "ZH002": Behind,
    "ZH003": Forked,
    "ZH005": NotAllowed,
    "ZH007": ClockStepped,
    "42501": NotAllowed,  # insufficient privilege
}
_GUARD_REFUSED = "ZH004"
_DISK_FULL = "53100"
_PASSING = {  # classes of errors that may be gone when tried again
    "08",  # connection
    "25",  # transaction state, read-only standby
    "40",  # rolled back: deadlock
    "53",  # out of disk, memory or connections
    "55",  # lock not available
    "57",  # shut down, or cancelled by a timeout
    "58",  # system error
    "XX",  # internal error
}

T = TypeVar("T")


class Lane:
    """One connection, for one caller at a time, made when needed and again when it broke."""

    def __init__(self, dsn: str, prepare: Callable[[Any], Awaitable[None]]) -> None:
        self._dsn = dsn
        self._prepare = prepare  # run on every new connection
        self._turn = asyncio.Lock()
        self._connection: Any = None
        self._closed = False
        self.callers = 0

    async def run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """What `work` returns, given the connection. Raises `StoreError` and its kinds only."""
        self.callers += 1
        try:
            await self._take_turn()
            try:
                return await self._attempt(work)
            finally:
                self._turn.release()
        finally:
            self.callers -= 1

    async def close(self) -> None:
        """Give the connection back; later calls raise `Unavailable`."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await connection.close(timeout=CLOSE_S)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()

    async def _take_turn(self) -> None:
        if not self._turn.locked():
            await self._turn.acquire()
            return
        try:
            async with asyncio.timeout(ACQUIRE_S):
                await self._turn.acquire()
        except TimeoutError:
            raise Unavailable("every connection to the log is busy") from None

    async def _attempt(self, work: Callable[[Any], Awaitable[T]]) -> T:
        try:
            return await work(await self._connected())
        except asyncpg.PostgresError as error:
            if self._connection is not None and self._connection.is_closed():
                self._drop()
            raise translated(error) from None
        except (asyncpg.DataError, asyncpg.UnsupportedClientFeatureError) as error:
            raise StoreError(f"the log does not take this: {error}") from None
        except (
            OSError,
            TimeoutError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
        ) as error:
            self._drop()
            raise Unavailable(f"the log cannot be reached: {_said(error)}") from None
        except asyncio.CancelledError:
            self._drop()  # mid-command: what it did is not known
            raise

    async def _connected(self) -> Any:
        if self._closed:
            raise Unavailable("this store is closed")
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._dsn)
            await self._prepare(self._connection)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


async def connect(
    dsn: str, *, statement_s: float = STATEMENT_S, lock_s: float = LOCK_S
) -> asyncpg.Connection:
    """A connection with every timeout set, to a server that accepts writes. Raises `Unavailable`
    and `StoreError`.
    """
    try:
        return await asyncpg.connect(
            dsn,
            timeout=CONNECT_S,
            command_timeout=statement_s + ANSWER_GRACE_S,
            target_session_attrs="read-write",
            server_settings={
                "application_name": "headrace",
                "statement_timeout": f"{int(statement_s * 1000)}ms",
                "lock_timeout": f"{int(lock_s * 1000)}ms",
                "idle_in_transaction_session_timeout": f"{int(STATEMENT_S * 1000)}ms",
                "jit": "off",  # compiling takes longer than any statement here
            },
        )
    except ValueError as error:  # asyncpg's own errors about addresses are these too
        raise StoreError(f"the address of the log is not usable: {_said(error)}") from None
    except asyncpg.PostgresError as error:
        raise translated(error) from None
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise Unavailable(f"the log cannot be reached: {_said(error)}") from None


def translated(error: asyncpg.PostgresError) -> StoreError:
    """What an error of the database means to users of the log."""
    state = str(getattr(error, "sqlstate", "") or "")
    if state == _GUARD_REFUSED:
        return GuardRefused(str(getattr(error, "detail", "")))
    if state in _REFUSALS:
        return _REFUSALS[state](str(error))
    if state == _DISK_FULL:
        return NoRoom(f"the log's disk is full: {_said(error)}")
    if state[:2] in _PASSING:
        return Unavailable(f"the log cannot be reached: {_said(error)}")
    return StoreError(f"the log refused: {_said(error)} ({state})")


def _said(error: BaseException) -> str:
    """The error in one line, or its kind when it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__
