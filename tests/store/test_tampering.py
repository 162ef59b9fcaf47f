"""Whoever may change anything in the database changes something: `verify` tells what and where."""

from __future__ import annotations

import msgspec
import pytest
from tests.contract import logs as kinds
from tests.contract.services import snapshot
from tests.verification.histories import GOOD, entries, requested, stored

from headrace.decider import fold
from headrace.decider.version import decision_version
from headrace.events import CATALOGUE, Decision, Header
from headrace.events.guards import guards_of
from headrace.events.platform import ServiceLed
from headrace.metrics.decide import DECIDER
from headrace.runtime.reader import entry_of
from headrace.store.chained import read_chained, read_one
from headrace.store.interface import Forked, NewEvent, chain, key_id_of
from headrace.store.postgres import PostgresStore
from headrace.verification import Noted, verify

SERVICES = ("admission", "metrics", "placement", "quota")
OUTSIDE_THE_LOG = {"schema_version", "secret"}
NOT_COMPARED = {  # with why nothing in the log could say otherwise
    ("log_head", "id"): "a constraint holds it",
    ("log_head", "partition_events"): "how large new partitions are",
    ("log_head", "partitioned_to"): "which partitions there are",
    ("service_head", "holder"): "who leads now",
    ("service_head", "lease_until"): "until when",
    ("service_head", "lease_s"): "for how long",
    ("log_head", "clock_offset_us"): "what the server's clock is off by is said in `clock.stepped`",
    ("log_head", "clock_read_from_us"): "since when readings of that clock count",
    ("service_head", "boot"): "the last reading of a clock",
    ("service_head", "boottime_us"): "likewise",
    ("service_head", "read_us"): "likewise",
    ("request", "hash"): "it could be guessed from if it stayed in the log for ever",
    ("snapshot", "decision_version"): "other code's snapshots cannot be judged",
}
CHANGES = {  # where one more would be refused by a constraint, or would be in order
    ("event", "position"): "position + 20",
    ("service_head", "epoch"): "epoch - 1",
}
CHANGE_OF_TYPE = {
    "bigint": "{0} + 1",
    "text": "{0} || 'x'",
    "bytea": "set_byte({0}, 0, get_byte({0}, 0) # 1)",
}
TOLD = {  # by table: what the violation is about
    "event": "I8 at position",
    "log_head": "head",
    "service_head": "row",
    "guard": "counter",
    "request": "request",
    "snapshot": "snapshot",
    "event_role": "may",
    "project_key": "key of",
}
FILLERS = 120
WRAPPED = b"a project's key"
GONE_IN_ORDER = {  # one that is not there is folded anew from the log; erasing a project drops its key
    "snapshot", "project_key",
}  # fmt: skip


@pytest.fixture
async def log(logs):
    """A store, as a superuser, over the log of one job's life."""
    store = await PostgresStore.connect(logs.dsn)
    terms = {name: await store.lead(name, "one", 60.0) for name in SERVICES}
    version = decision_version()
    led = (ServiceLed(service=name, epoch=1, decision_version=version) for name in SERVICES)
    first, *others, last = GOOD
    first = msgspec.structs.replace(first, launch_key=key_id_of(WRAPPED))
    keyed = (first, Header(request_key="etl-1"))
    decided = (last, Header(causation=13, basis=14, decided_at_us=15_000, count=1))
    for event in stored(entries([*led, keyed, *others, decided])):
        await append(store, terms, event)
    await store.add_project_key(first.project, WRAPPED)
    yield store
    await store.close()


async def append(store, terms, event):
    """The event under its own service's term."""
    type_ = CATALOGUE[event.type]
    entry = entry_of(event)
    service = entry.event.service if type_ is ServiceLed else type_.owner
    key = "" if issubclass(type_, Decision) else entry.header.request_key
    new = NewEvent(
        stream=event.stream,
        type=event.type,
        project=event.project,
        header=event.header,
        data=event.data,
        guards=guards_of(entry.event),
        request_key=key,
        request_hash=b"hash" if key else b"",
    )
    head = await store.head()
    await store.append(service, terms[service].epoch, head.position, head.hash, [new])


async def with_snapshot(store):
    """The state of metrics after the whole log, as its service would keep it."""
    head = await store.head()
    state = fold(DECIDER, DECIDER.initial(), [entry_of(e) for e in await store.read(0)])
    data = msgspec.json.encode(state)
    await store.save_snapshot(
        snapshot("metrics", head.position, head.hash, decision_version(), data)
    )


async def found(store, **more):
    return await verify(store, {"metrics": DECIDER}, **more)


async def tamper(logs, *statements):
    """As no trigger and no right would let it."""
    await kinds.execute_all(
        logs.dsn, ";".join(("SET session_replication_role = replica", *statements))
    )


COLUMNS = (
    "SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c"
    " JOIN pg_class r ON r.oid = ('headrace.' || c.table_name)::regclass"
    " WHERE c.table_schema = 'headrace' AND NOT r.relispartition"
    " ORDER BY c.table_name, c.ordinal_position"
)


async def test_a_log_that_nobody_changed_is_in_order(log):
    await with_snapshot(log)

    report = await found(log)

    assert report.violations == ()
    assert report.decisions == 1


async def test_a_request_that_is_only_repeated_leaves_the_head_as_the_last_event_has_it(log):
    terms = {name: await log.lead(name, "one", 60.0) for name in SERVICES}
    made = stored(entries([(requested("twice"), Header(request_key="twice"))]))[0]
    for _ in range(2):
        await append(log, terms, made)

    assert (await found(log)).violations == ()


async def test_each_column_of_each_table_is_compared(logs, log):
    await with_snapshot(log)
    missed = []
    tried = set()

    for table, column, kind in await kinds.execute(logs.dsn, COLUMNS):
        if table in OUTSIDE_THE_LOG or (table, column) in NOT_COMPARED:
            continue
        change = CHANGES.get((table, column)) or CHANGE_OF_TYPE[kind].format(f'"{column}"')
        await tamper(
            logs,
            f"CREATE TABLE saved AS TABLE headrace.{table}",
            f'UPDATE headrace.{table} SET "{column}" = {change} WHERE ctid ='
            f" (SELECT min(ctid) FROM headrace.{table})",
        )
        told = [str(violation) for violation in (await found(log)).violations]
        tried.add(table)
        if not any(TOLD[table] in text for text in told):
            missed.append((table, column, told))
        await tamper(
            logs,
            f"DELETE FROM headrace.{table}",
            f"INSERT INTO headrace.{table} TABLE saved",
            "DROP TABLE saved",
        )

    assert missed == []
    assert tried == TOLD.keys()
    assert (await found(log)).violations == ()


async def test_another_key_with_its_own_id_is_told(logs, log):
    other = b"another key"
    await tamper(
        logs,
        f"UPDATE headrace.project_key SET id = '{key_id_of(other)}', wrapped = '\\x{other.hex()}'",
    )

    (told,) = [str(violation) for violation in (await found(log)).violations]

    assert f"is {key_id_of(other)}, and the log has that for nobody" in told


@pytest.mark.parametrize("table", sorted(TOLD.keys() - {"log_head"}))
async def test_a_row_that_is_gone_is_missed(logs, log, table):
    await with_snapshot(log)
    await tamper(
        logs, f"DELETE FROM headrace.{table} WHERE ctid = (SELECT max(ctid) FROM headrace.{table})"
    )

    told = [str(violation) for violation in (await found(log)).violations]

    # Nothing is believed that should not be.
    assert bool(told) == (table not in GONE_IN_ORDER), told


@pytest.mark.parametrize(
    ("column", "says"),
    [("stream", "its stream is"), ("project", "its project is"), ("type", "cannot be read")],
)
async def test_a_column_that_is_changed_together_with_all_later_hashes_is_told(
    logs, log, column, says
):
    events = await log.read(0)
    at = 5
    changed = msgspec.structs.replace(events[at - 1], **{column: "job.admitted.v9"})
    hash_, statements = events[at - 2].hash, []
    for event in (changed, *events[at:]):
        hash_ = chain(hash_, event.position, event.recorded_at_us, event)
        statements.append(
            f"UPDATE headrace.event SET {column} = '{getattr(event, column)}',"
            f" hash = '\\x{hash_.hex()}' WHERE position = {event.position}"
        )
    statements.append(f"UPDATE headrace.log_head SET hash = '\\x{hash_.hex()}'")
    noted = Noted(position=len(events), hash=events[-1].hash)
    await tamper(logs, *statements)

    told = [str(v) for v in (await found(log)).violations if v.position == at]
    assert any(says in text for text in told), told
    told = [str(v) for v in (await found(log, noted=noted)).violations]
    assert any("another hash than was noted" in text for text in told), told


def set_head(event):
    """The statement that makes this event the last one."""
    return (
        f"UPDATE headrace.log_head SET position = {event.position},"
        f" hash = '\\x{event.hash.hex()}', recorded_at_us = {event.recorded_at_us}"
    )


async def lengthen(store):
    terms = {name: await store.lead(name, "one", 60.0) for name in SERVICES}
    for number in range(FILLERS):
        last = await store.head()
        made = stored(entries([(requested(f"x{number}"), Header(request_key=f"k{number}"))]))[0]
        await append(store, terms, made)
        assert (await store.head()).position == last.position + 1


async def test_a_lost_end_is_found_whatever_of_it_was_set_back(logs, log):
    await lengthen(log)
    assert not [v for v in (await found(log)).violations if v.invariant == "I17"]
    head = await log.head()
    noted = Noted(position=head.position, hash=head.hash)
    cut = head.position - 100
    (row,) = await log.read(cut - 1, 1)
    steps = (
        (
            f"DELETE FROM headrace.event WHERE position > {cut}",
            f"{cut}: is the last event, and the head says {head.position}",
        ),
        (
            set_head(row),
            f"{cut}: is admission's last event",
        ),
        (
            f"UPDATE headrace.service_head SET last_position = {cut} WHERE service = 'admission'",
            "the row of request",
        ),
        (f"DELETE FROM headrace.request WHERE position > {cut}", ""),
    )
    for statement, says in steps:
        await tamper(logs, statement)
        told = [str(v) for v in (await found(log)).violations if v.invariant == "I17"]
        assert any(says in text for text in told) if says else not told, told

    report = await found(log)
    assert f"--noted {cut}:{row.hash.hex()}" in str(report)
    told = [str(v) for v in (await found(log, noted=noted)).violations]
    assert f"I8 at position {head.position}: was noted, and the log ends at {cut}" in told


async def test_events_behind_the_head_are_told(logs, log):
    head = await log.head()
    before = await read_one(log, head.position - 1)
    await tamper(logs, set_head(before))

    told = [str(violation) for violation in (await found(log)).violations]

    assert f"I17 at position {head.position}: is the last event, and the head says 14" in told


@pytest.mark.parametrize("column", ["stream", "type", "project", "header", "data"])
async def test_no_reader_is_given_an_event_that_was_changed(logs, log, column):
    (event,) = await log.read(4, 1)
    stream = event.stream + "x" * (column == "stream")
    kind = "bytea" if column in {"header", "data"} else "text"
    await tamper(
        logs,
        f"UPDATE headrace.event SET {column} = ({column} || 'x'::{kind}) WHERE position = 5",
    )

    for reading in (read_chained(log, 4, 1), read_chained(log, 0), log.read_stream(stream, 4)):
        with pytest.raises(Forked, match="position 5"):
            await reading
    with pytest.raises(Forked):
        await read_one(log, 5)
    assert (await read_one(log, 4)).position == 4


async def test_a_project_is_not_told_of_an_event_about_another(log):
    (event,) = await log.read(4, 1)
    with pytest.raises(Forked, match="recorded for project 'ads' and is about 'vision'"):
        entry_of(msgspec.structs.replace(event, project="ads"))


async def test_an_event_with_a_null_is_not_taken(logs, log):
    head = await log.head()
    columns = ["ARRAY['a']", "ARRAY['job.requested.v1']", "ARRAY['p']"] + [
        "ARRAY['\\x00'::bytea]"
    ] * 2
    for index in range(5):
        arrays = columns.copy()
        arrays[index] = "ARRAY[NULL]::text[]" if index < 3 else "ARRAY[NULL]::bytea[]"
        with pytest.raises(Exception, match=r"null value|not append"):
            await kinds.execute(
                logs.dsn,
                f"SELECT headrace.append('admission', 1, {head.position},"
                f" '\\x{head.hash.hex()}', {', '.join(arrays)},"
                " '{}', '{}', '{}', '{}', '{}', '{}', '{}', '', 0)",
            )
    assert (await log.head()).position == head.position
