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

from headrace.store.interface import StoreError
from headrace.store.lineage import Known, Opening, Refused, open_log

MIGRATION_S_MAX = 600.0
CONNECT_S_MAX = 30.0


class Order(msgspec.Struct):
    """What is to be migrated. `create`: make the database when it is missing."""

    dsn: str
    opening: Opening
    create: bool


def main() -> None:
    """Do what standard input says. Exits 1 with one line when it cannot be done."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        known = asyncio.run(_migrate(order))
        sys.stdout.buffer.write(msgspec.json.encode(known))
    except Refused as error:
        raise SystemExit(f"refused: {error}") from None
    except (StoreError, asyncpg.PostgresError, OSError) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None


async def _migrate(order: Order) -> Known:
    if order.create:
        await _create_database(order.dsn)
    return await open_log(order.dsn, order.opening)


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
