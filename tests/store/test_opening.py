"""A log is opened by the platform that it belongs to, as far as that has seen it, or not at all."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.contract import logs as kinds
from tests.contract.services import event

from headrace.events import decode
from headrace.events.platform import FORKED, RESTORED, LogBegan
from headrace.store import roles
from headrace.store.interface import NotAllowed, SchemaTooNew
from headrace.store.lineage import Known, Opening, Refused, digest_of, open_log
from headrace.store.postgres import PostgresStore

OURS, THEIRS = digest_of(b"a" * 32), digest_of(b"b" * 32)
WITHOUT_TRIGGERS = "SET session_replication_role = replica;"


def opening(*, known=None, key=OURS, how="", rotate=False, password="one"):
    passwords = {role: f"{password}-{role}" for role in roles.ROLES}
    return Opening(
        passwords=passwords, master_key=key, known=known or Known(), how=how, rotate=rotate
    )


@pytest.fixture
async def databases(postgres_dsn):
    """Empty databases of one server, and no roles of theirs afterwards."""
    made = []

    async def make():
        made.append(await kinds.make_empty(postgres_dsn))
        return made[-1]

    yield make
    names = [urlsplit(dsn).path.lstrip("/") for dsn in made]
    for name in names:
        await kinds.drop(postgres_dsn, name)
        rows = await kinds.execute(
            postgres_dsn,
            "SELECT rolname FROM pg_roles WHERE starts_with(rolname, $1)",
            f"headrace_{name}_",
        )
        for row in rows:
            await kinds.execute(postgres_dsn, f'DROP ROLE "{row[0]}"')


def login(dsn, role, prefix, password="one"):
    parts = urlsplit(dsn)
    where = parts.netloc.rpartition("@")[2]
    named = roles.named(role, prefix)
    return parts._replace(netloc=f"{named}:{password}-{role}@{where}").geturl()


async def appended(dsn, known, password="one"):
    """One event of admission's, under its own login; the log as it is known then."""
    store = await PostgresStore.connect(login(dsn, "headrace_admission", known.prefix, password))
    try:
        term = await store.lead("admission", "a", 60.0)
        head = await store.head()
        done = await store.append("admission", term.epoch, head.position, head.hash, [event(1)])
    finally:
        await store.close()
    (stored,) = done.events
    return msgspec.structs.replace(
        known, position=stored.position, hash=stored.hash.hex(), hash_at=stored.position
    )


async def events(dsn):
    rows = await kinds.execute(dsn, "SELECT type, data FROM headrace.event ORDER BY position")
    return [decode(*row) for row in rows]


async def test_a_log_begins_with_its_line_of_history_and_keeps_it(databases):
    dsn = await databases()
    known = await open_log(dsn, opening())
    (began,) = await events(dsn)
    assert isinstance(began, LogBegan)
    assert (began.lineage, began.epoch, began.how) == (known.lineage, known.epoch, "new")
    assert began.master_key == OURS
    assert await open_log(dsn, opening(known=known)) == known
    later = await appended(dsn, known)
    assert (await open_log(dsn, opening(known=known))).position == later.position == 2


async def test_no_service_may_begin_a_line_of_history(databases):
    dsn = await databases()
    known = await open_log(dsn, opening())
    store = await PostgresStore.connect(login(dsn, "headrace_placement", known.prefix))
    term, head = await store.lead("placement", "a", 60.0), await store.head()
    forged = msgspec.structs.replace(event(1), type="log.began.v1", stream="log")
    with pytest.raises(NotAllowed):
        await store.append("placement", term.epoch, head.position, head.hash, [forged])
    await store.close()


async def test_a_log_of_other_keys_is_refused_and_left_alone(databases):
    dsn = await databases()
    known = await open_log(dsn, opening())
    with pytest.raises(Refused, match="begun with another master key"):
        await open_log(dsn, opening(key=THEIRS, password="two"))
    await appended(dsn, known)  # its passwords are what they were


async def test_an_empty_log_is_refused_by_who_knew_more(databases):
    known = await open_log(await databases(), opening())
    with pytest.raises(Refused, match="the log is empty, and this folder has seen it up to"):
        await open_log(await databases(), opening(known=known))


async def test_an_older_log_is_refused_and_goes_on_when_it_is_said_to_be_restored(databases):
    dsn = await databases()
    first = await open_log(dsn, opening())
    newer = msgspec.structs.replace(first, position=500)
    with pytest.raises(Refused, match=r"ends at position 1, .*500.*headrace up --restored"):
        await open_log(dsn, opening(known=newer))
    again = await open_log(dsn, opening(known=newer, how=RESTORED))
    (_, began) = await events(dsn)
    assert (began.how, began.before) == (RESTORED, first.lineage)
    assert again.lineage not in ("", first.lineage)
    assert again.epoch > first.epoch
    third = await open_log(dsn, opening(known=again, how=RESTORED))
    assert third.epoch > again.epoch, "also of two that begin at the same place"
    with pytest.raises(Refused, match="the log is in lineage"):
        await open_log(dsn, opening(known=msgspec.structs.replace(third, lineage="c" * 32)))


async def test_another_log_of_the_same_length_is_refused(databases):
    dsn = await databases()
    known = await open_log(dsn, opening())
    other = msgspec.structs.replace(known, hash="00" * 32)
    with pytest.raises(Refused, match="is not what this folder has seen there"):
        await open_log(dsn, opening(known=other))


@pytest.mark.parametrize("position", [2, 3])
async def test_a_log_with_a_hole_is_refused_with_a_way_out(databases, position):
    dsn = await databases()
    known = await open_log(dsn, opening())
    for _ in range(2):
        known = await appended(dsn, known)
    await kinds.execute_all(
        dsn, f"{WITHOUT_TRIGGERS} DELETE FROM headrace.event WHERE position = {position}"
    )
    with pytest.raises(Refused, match=r"has a hole between 1 and 3: put a whole copy back"):
        await open_log(dsn, opening(known=known))


async def test_a_copy_that_was_torn_is_refused_when_it_is_to_go_on(databases):
    dsn = await databases()
    known = await appended(dsn, await open_log(dsn, opening()))
    await appended(dsn, known)
    await kinds.execute_all(
        dsn, f"{WITHOUT_TRIGGERS} UPDATE headrace.event SET data = 'x' WHERE position = 2"
    )
    for how in (RESTORED, FORKED):
        with pytest.raises(Refused, match="the log breaks after position 1: put a whole copy back"):
            await open_log(dsn, opening(known=known, how=how))


async def test_a_log_of_a_newer_release_is_refused_and_left_alone(databases):
    dsn = await databases()
    known = await open_log(dsn, opening())
    await kinds.execute(dsn, "INSERT INTO headrace.schema_version VALUES (99, '0099_later')")
    with pytest.raises(SchemaTooNew, match="has schema 99"):
        await open_log(dsn, opening(known=known, password="two"))


async def test_two_databases_of_one_server_have_roles_of_their_own(databases):
    dsns = [await databases(), await databases()]
    logs = [
        await open_log(dsns[0], opening()),
        await open_log(dsns[1], opening(key=THEIRS, password="two")),
    ]
    assert logs[0].prefix != logs[1].prefix
    for dsn, known, password in zip(dsns, logs, ("one", "two"), strict=True):
        await appended(dsn, known, password)
    with pytest.raises(NotAllowed):
        await PostgresStore.connect(login(dsns[1], "headrace_admission", logs[0].prefix))


async def test_roles_of_another_log_change_hands_only_when_that_is_said(databases):
    dsn, other = await databases(), await databases()
    known = await open_log(dsn, opening())
    name = urlsplit(other).path.lstrip("/")
    await kinds.execute_all(  # a database whose roles were made for another
        dsn, f"COMMENT ON ROLE {known.prefix}admission IS 'Headrace, database {name}'"
    )
    with pytest.raises(Refused, match=f"belong to database {name} already.*--rotate"):
        await open_log(dsn, opening(known=known, password="two"))
    await appended(dsn, known)
    taken = await open_log(dsn, opening(known=known, password="two", rotate=True))
    await appended(dsn, taken, "two")


async def test_opening_at_once_begins_one_line(databases):
    dsn = await databases()
    await asyncio.gather(*(open_log(dsn, opening()) for _ in range(3)))
    assert len(await events(dsn)) == 1
