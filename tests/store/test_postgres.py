"""What only the log in Postgres has to promise: partitions, finality, locks and lost connections."""

from __future__ import annotations

import asyncio
import os
import signal

import asyncpg
import pytest
from tests.contract import logs as kinds
from tests.contract.services import LEASE_S, assert_whole, booking, event, leader, snapshot

from headrace.embedded.postgres import Postgres
from headrace.store.interface import Behind, Fenced, StoreError, Unavailable
from headrace.store.postgres import PostgresStore

WAIT_S = 60.0


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not await condition():  # noqa: ASYNC110 - what another process does has no event
            await asyncio.sleep(0.01)


async def somebody_waits(dsn, how_many=1):
    """Asked on a connection of its own: within a transaction the answer never changes."""
    query = (
        "SELECT 1 FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    return len(await kinds.execute(dsn, query)) == how_many


async def works_again(store):
    async def head_is_read():
        try:
            await store.head()
        except Unavailable:
            return False
        return True

    await until(head_is_read)


async def test_partitions_are_made_ahead_of_the_head(logs):
    admission = await leader(logs)
    partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'headrace.event'::regclass"
    assert (await kinds.execute(logs.dsn, partitions))[0][0] == 1
    await admission.append(*(event(n) for n in range(kinds.PARTITION_EVENTS // 2)))
    assert (await kinds.execute(logs.dsn, partitions))[0][0] == 1
    await admission.append(event(7))
    assert (await kinds.execute(logs.dsn, partitions))[0][0] == 2
    await admission.append(*(event(n) for n in range(3 * kinds.PARTITION_EVENTS)))
    assert await assert_whole(admission.store) == 7 * kinds.PARTITION_EVENTS // 2 + 1
    stream = await admission.store.read_stream("job/7")
    assert [e.position for e in stream] == [8, 26, 34]


async def test_what_is_in_the_log_is_final_even_for_its_owner(logs):
    admission = await leader(logs)
    await admission.append(*(event(n) for n in range(60)))
    for table in ("event", "event_from_1", "event_from_51"):
        for change in ("UPDATE headrace.{} SET data = ''", "DELETE FROM headrace.{}"):
            with pytest.raises(asyncpg.PostgresError, match="append-only"):
                await kinds.execute(logs.dsn, change.format(table))
        with pytest.raises(asyncpg.PostgresError, match="append-only"):
            await kinds.execute(logs.dsn, f"TRUNCATE headrace.{table}")
    assert await assert_whole(admission.store) == 60


async def test_nothing_is_spent_on_making_a_snapshot_smaller(logs):
    admission = await leader(logs)
    await admission.append(event(1))
    head = await admission.store.head()
    data = b"queued " * 100_000
    await admission.store.save_snapshot(snapshot("admission", head.position, head.hash, data=data))
    kept = "SELECT pg_column_compression(data), pg_column_size(data) FROM headrace.snapshot"
    assert await kinds.execute(logs.dsn, kept) == [(None, len(data))]


@pytest.mark.usefixtures("patient")
async def test_a_takeover_waits_for_the_append_in_flight_and_fences_what_follows(logs):
    old = await leader(logs)
    connection = await asyncpg.connect(logs.dsn)
    taking_over = None
    try:
        async with connection.transaction():
            held = "SELECT 1 FROM headrace.service_head WHERE service = 'admission' FOR UPDATE"
            await connection.execute(held)  # as an append does until it has committed
            store = await logs.store("admission")
            taking_over = asyncio.create_task(store.lead("admission", "one", LEASE_S))

            await until(lambda: somebody_waits(logs.dsn))
            assert not taking_over.done()
        term = await taking_over
    finally:
        await connection.close()
    assert term.epoch == old.epoch + 1
    with pytest.raises(Fenced):
        await old.append(event(1))


async def test_an_append_that_waits_too_long_for_a_lock_is_unavailable_and_did_nothing(logs):
    admission = await leader(logs)
    connection = await asyncpg.connect(logs.dsn)
    try:
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM headrace.log_head FOR UPDATE")
            with pytest.raises(Unavailable):
                await admission.append(event(1, key="k"))
    finally:
        await connection.close()
    assert (await admission.append(event(1, key="k"))).duplicates == ()
    assert await assert_whole(admission.store) == 1


@pytest.mark.usefixtures("patient")
async def test_a_request_that_two_services_record_at_once_is_recorded_once(logs):
    leaders = [await leader(logs, service) for service in ("admission", "quota")]
    connection = await asyncpg.connect(logs.dsn)
    try:
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM headrace.log_head FOR UPDATE")
            appends = [
                asyncio.create_task(one.append(event(1, one.service, key="k"))) for one in leaders
            ]
            await until(lambda: somebody_waits(logs.dsn, how_many=2))
        appended = await asyncio.gather(*appends)
    finally:
        await connection.close()
    assert sorted(len(one.events) for one in appended) == [0, 1]
    assert await assert_whole(leaders[0].store) == 1


async def test_a_store_mends_its_connections(logs):
    admission = await leader(logs)
    await admission.append(event(1))
    kill = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE usename = 'headrace_admission' AND datname = current_database()"
    )
    assert len(await kinds.execute(logs.dsn, kill)) == 2
    await works_again(admission.store)
    try:
        await admission.append(event(2))
    except Unavailable:  # its own connection had not noticed yet
        await admission.append(event(2))
    assert await assert_whole(admission.store) == 2


async def test_a_killed_server_loses_nothing_and_is_found_again(server_folder):
    server = Postgres(server_folder / "killed")
    running = server.start()
    try:
        await kinds.migrate(server.dsn(), {})
        store = await PostgresStore.connect(server.dsn())
        term = await store.lead("admission", "one", LEASE_S)
        await store.append("admission", term.epoch, 0, bytes(32), [event(1, key="k")])
        os.kill(running.pid, signal.SIGKILL)

        async def is_gone():
            try:
                await store.head()
            except Unavailable:
                return True
            return False

        await until(is_gone)
        await asyncio.to_thread(server.start)
        await works_again(store)
        with pytest.raises(Behind):
            await store.append("admission", term.epoch, 0, bytes(32), [event(2)])
        assert await assert_whole(store) == 1
        await store.close()
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.usefixtures("patient")
async def test_a_caller_that_gives_up_harms_nobody_else(logs):
    admission = await leader(logs)
    connection = await asyncpg.connect(logs.dsn)
    try:
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM headrace.log_head FOR UPDATE")
            gives_up = asyncio.create_task(admission.append(event(1)))

            await until(lambda: somebody_waits(logs.dsn))
            gives_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gives_up
    finally:
        await connection.close()
    admission.epoch += 1
    assert await admission.store.lead("admission", "one", LEASE_S)  # waits for what was given up
    await admission.read_on()
    await admission.append(event(2))
    await assert_whole(admission.store)


async def test_a_closed_store_leaves_no_task_behind(database):
    await kinds.migrate(database, {})
    before = asyncio.all_tasks()
    store = await PostgresStore.connect(database, connections=3)
    await asyncio.gather(*(store.head() for _ in range(20)))
    await store.close()
    await store.close()
    assert asyncio.all_tasks() == before


async def test_a_server_that_is_not_there_is_unavailable():
    with pytest.raises(Unavailable, match="cannot be reached"):
        await PostgresStore.connect("postgresql://nobody@127.0.0.1:1/none")


@pytest.mark.parametrize("dsn", ["postgresql://a@h:port/x", "http://127.0.0.1/x"])
async def test_an_address_that_is_none_is_said_in_one_line(dsn):
    with pytest.raises(StoreError, match="not usable") as refused:
        await PostgresStore.connect(dsn)
    assert "\n" not in str(refused.value)


async def test_a_wrong_password_is_not_something_to_wait_for(logs):
    await logs.wire.open()
    dsn = f"postgresql://headrace_quota:wrong@127.0.0.1:{logs.wire.port}/"
    with pytest.raises(StoreError, match="password") as refused:
        await PostgresStore.connect(dsn)
    assert not isinstance(refused.value, Unavailable)


async def test_guards_and_requests_of_refused_appends_leave_nothing_behind(logs):
    placement = await leader(logs, "placement")
    for bad in (booking("gpu/a", 1001), event(1, "placement", data=b"x", type="job.admitted.v1")):
        with pytest.raises(StoreError):
            await placement.append(booking("gpu/b", 1), event(1, "placement", key="k"), bad)
    for table in ("event", "guard", "request"):
        assert await kinds.execute(logs.dsn, f"SELECT * FROM headrace.{table}") == []
