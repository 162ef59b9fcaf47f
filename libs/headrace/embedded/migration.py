"""A process of its own that opens the log and brings its schema up to date, so that the supervisor
stays small.

Run as `python -m headrace.embedded.migration`, with an `Order` as JSON on standard input; what is
known of the log then is the JSON on standard output.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import msgspec

from headrace.bus.interface import BusError
from headrace.events.platform import others_log_text
from headrace.store.interface import StoreError
from headrace.store.lineage import Known, Opening, Refused, lines_of, open_log

MIGRATION_S_MAX = 600.0
CONNECT_S_MAX = 30.0


class Order(msgspec.Struct):
    """What is to be migrated. `create`: make the database when it is missing. `nats_url` is of a bus of
    the user's own, where the platform's log is to be the only one.
    """

    dsn: str
    opening: Opening
    create: bool
    nats_url: str = ""
    nats_creds: str = ""


def main() -> None:
    """Do what standard input says. Exits 1 with one line when it cannot be done."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        known = asyncio.run(_migrate(order))
        sys.stdout.buffer.write(msgspec.json.encode(known))
    except Refused as error:
        raise SystemExit(f"refused: {error}") from None
    except (BusError, StoreError, asyncpg.PostgresError, OSError) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None


async def _migrate(order: Order) -> Known:
    if order.create:
        await _create_database(order.dsn)
    known = await open_log(order.dsn, order.opening)
    if order.nats_url:
        await _check_bus(order)
    return known


async def _check_bus(order: Order) -> None:
    """Two platforms on one bus would answer each other's requests."""
    from headrace.bus.nats import NatsBus

    bus = await NatsBus.connect(order.nats_url, creds_path=order.nats_creds, name="up")
    try:
        copy = await bus.stream_state("LOG")
    finally:
        await bus.close()
    if copy is not None and copy.lineage not in ("", *await lines_of(order.dsn)):
        raise Refused(f"HEADRACE_NATS_URL — {others_log_text(copy.lineage)}")


async def _create_database(dsn: str) -> None:
    parts = urlsplit(dsn)
    name = parts.path.lstrip("/")
    connection = await asyncpg.connect(
        urlunsplit(parts._replace(path="/postgres")),
        timeout=CONNECT_S_MAX,
        command_timeout=MIGRATION_S_MAX,
    )
    try:
        if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
            await connection.execute(f'CREATE DATABASE "{name}"')
    finally:
        await connection.close()


if __name__ == "__main__":
    main()
