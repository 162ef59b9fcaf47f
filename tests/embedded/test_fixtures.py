"""The servers that every other test builds on."""

import asyncpg
import nats


async def test_a_fresh_database_takes_sql(database):
    connection = await asyncpg.connect(database)
    await connection.execute("CREATE TABLE t (x int)")
    assert await connection.fetchval("SELECT count(*) FROM t") == 0
    assert await connection.fetchval("SHOW fsync") == "on"
    assert await connection.fetchval("SHOW data_checksums") == "on"
    await connection.close()


async def test_nats_keeps_its_address_when_it_is_wiped(own_nats):
    before = own_nats.url
    client = await nats.connect(before)
    await client.jetstream().add_stream(name="S", subjects=["s.>"])
    await client.close()
    own_nats.wipe()
    assert own_nats.url == before
    client = await nats.connect(before)
    assert await client.jetstream().streams_info() == []
    await client.close()


async def test_nats_keeps_its_streams_over_a_kill(own_nats):
    client = await nats.connect(own_nats.url)
    await client.jetstream().add_stream(name="S", subjects=["s.>"])
    await client.jetstream().publish("s.a", b"kept")
    await client.close()
    own_nats.kill()
    own_nats.start()
    client = await nats.connect(own_nats.url)
    assert (await client.jetstream().get_msg("S", 1)).data == b"kept"
    await client.close()
