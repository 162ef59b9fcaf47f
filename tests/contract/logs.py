"""The two kinds of log under test, with the same handles for what only a test does to them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg

from headrace.store import roles
from headrace.store.interface import Unavailable
from headrace.store.memory import MemoryLog, MemoryStore
from headrace.store.migrate import migrate
from headrace.store.postgres import PostgresStore

WAIT_S = 60.0
PARTITION_EVENTS = 50  # so that tests cross the borders of partitions
HOUR_US = 3_600_000_000
DAY_US = 86_400_000_000
PASSWORDS = {role: f"password of {role}" for role in roles.ROLES}


class MemoryLogs:
    """One `MemoryLog`, a clock that only moves on, and one fault to come."""

    def __init__(self):
        self.log = MemoryLog()
        self._now_us = 1_700_000_000_000_000
        self._steady_us = self._ahead_us = 0
        self._fault_at = ""
        self._stores = []

    async def store(self, service):
        role = roles.role_of(service)
        store = MemoryStore(
            self.log, self._clock, lambda: self._steady_us, role=role, fault=self._fault
        )
        self._stores.append(store)
        return store

    async def close(self):
        for store in self._stores:
            await store.close()

    def lose_next_reply(self):
        self._fault_at = "append.after"

    def lose_next_request(self):
        self._fault_at = "append.before"

    async def age_request(self, key, *, days):
        hash_, position, at_us = self.log.requests["vision", "", key]
        self.log.requests["vision", "", key] = (hash_, position, at_us - days * DAY_US)

    async def set_clock_back(self):
        self._now_us -= HOUR_US
        self.log.clock_read = None  # by nobody who could tell

    async def set_clock(self, ahead_us):
        self._ahead_us = ahead_us

    def _clock(self):
        self._now_us += 1
        self._steady_us += 1
        return self._now_us + self._ahead_us

    async def _fault(self, point):
        if point == self._fault_at:
            self._fault_at = ""
            raise Unavailable("a fault")


class PostgresLogs:
    """One database, reached by each service's own login through a wire that can be cut."""

    def __init__(self, dsn):
        self.dsn = dsn  # the superuser's
        self.wire = Wire(dsn)
        self._stores = []

    async def store(self, service):
        await self.wire.open()
        role = roles.role_of(service)
        dsn = urlunsplit(
            urlsplit(self.dsn)._replace(
                netloc=f"{role}:{PASSWORDS[role].replace(' ', '%20')}@127.0.0.1:{self.wire.port}",
                query="",
            )
        )
        store = await PostgresStore.connect(dsn)
        self._stores.append(store)
        return store

    async def close(self):
        for store in self._stores:
            await store.close()
        await self.wire.close()

    def lose_next_reply(self):
        self.wire.cut = "reply"

    def lose_next_request(self):
        self.wire.cut = "request"

    async def age_request(self, key, *, days):
        await execute(
            self.dsn,
            "UPDATE headrace.request SET recorded_at_us = recorded_at_us - $2 WHERE key = $1",
            key,
            days * DAY_US,
        )

    async def set_clock(self, ahead_us):
        """All that asks for the time asks this function."""
        await execute(
            self.dsn,
            "CREATE OR REPLACE FUNCTION headrace.wall_us() RETURNS bigint LANGUAGE sql RETURN"
            f" (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ({ahead_us})",
        )

    async def set_clock_back(self):
        """The server's clock cannot be changed from here: what it recorded last can."""
        change = "UPDATE headrace.log_head SET recorded_at_us = recorded_at_us + $1"
        await execute(self.dsn, change, HOUR_US)
        leases = "UPDATE headrace.service_head SET lease_until = lease_until + $1::interval"
        await execute(self.dsn, leases, timedelta(microseconds=HOUR_US))


class Wire:
    """A TCP port in front of the server. With `cut` set, the next request is lost on its way, or
    is carried out and its reply is lost; either way that connection breaks."""

    def __init__(self, dsn):
        parts = urlsplit(dsn)
        options = parse_qs(parts.query)
        self._host = options.get("host", [parts.hostname or "127.0.0.1"])[0]
        self._port = int(options.get("port", [parts.port or 5432])[0])
        self._server = None
        self._writers = []
        self.port = 0
        self.cut = ""

    async def open(self):
        if self._server is None:
            self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self):
        if self._server is not None:
            self._server.close()
            for writer in self._writers:
                writer.close()
            await self._server.wait_closed()

    async def _carry(self, reader, writer):
        if self._host.startswith("/"):
            path = f"{self._host}/.s.PGSQL.{self._port}"
            server_reader, server_writer = await asyncio.open_unix_connection(path)
        else:
            server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        self._writers += [writer, server_writer]
        back = asyncio.create_task(self._carry_back(server_reader, writer))
        while data := await _read(reader):
            if self.cut == "request":
                self.cut = ""
                break
            if self.cut == "reply":
                self.cut = ""
                back.cancel()
                server_writer.write(data)
                await _read(server_reader)  # small replies are sent whole, after the commit
                break
            server_writer.write(data)
        writer.transport.abort()
        server_writer.close()

    async def _carry_back(self, reader, writer):
        while data := await _read(reader):
            writer.write(data)
        writer.close()


async def _read(reader):
    try:
        return await reader.read(65_536)
    except ConnectionError:
        return b""


async def execute(dsn, statement, *arguments):
    connection = await asyncpg.connect(dsn, timeout=WAIT_S, command_timeout=WAIT_S)
    try:
        return await connection.fetch(statement, *arguments)
    finally:
        await connection.close()


async def execute_all(dsn, statements):
    connection = await asyncpg.connect(dsn, timeout=WAIT_S, command_timeout=WAIT_S)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


def database(dsn, name):
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


def apart(coroutine):
    """The coroutine's result, from an event loop of its own in another thread."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def make_empty(dsn):
    """The DSN of a new database with nothing in it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    await execute(dsn, f"CREATE DATABASE {name}")
    return database(dsn, name)


async def make_database(dsn):
    """The DSN of a new database with an empty log."""
    made = await make_empty(dsn)
    await migrate(made, PASSWORDS, partition_events=PARTITION_EVENTS)
    return made


async def empty(dsn):
    """Start the log anew, as no user can: ten times as fast as a new database."""
    tables = ("event", "service_head", "guard", "request", "snapshot", "project_key", "secret")
    deletes = ";".join(f"DELETE FROM headrace.{table}" for table in tables)
    await execute_all(
        dsn,
        f"SET session_replication_role = replica; {deletes};"  # without triggers
        " UPDATE headrace.log_head"
        " SET position = 0, hash = decode(repeat('00', 32), 'hex'), recorded_at_us = 0",
    )


async def drop(dsn, name):
    await execute(dsn, f"DROP DATABASE {name} WITH (FORCE)")
