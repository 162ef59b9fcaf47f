"""Facts on their way into the log: none is lost, none is settled twice."""

from __future__ import annotations

import pytest

from headrace.events.jobs import JobCancelRequested
from headrace.runtime import pending as module
from headrace.runtime.pending import PendingFacts, encode_fact
from headrace.store.interface import GENESIS, Appended, Duplicate, Stored


def fact(job):
    event = JobCancelRequested(job=job, project="ads", user="u")
    return encode_fact(event, actor="u", traceparent="", request_key=f"key of {job}")


def stored(event, position):
    return Stored(
        position=position,
        recorded_at_us=1,
        stream=event.stream,
        type=event.type,
        project=event.project,
        header=event.header,
        data=event.data,
        hash=GENESIS,
    )


async def test_facts_stay_in_order_until_they_are_settled():
    pending = PendingFacts()
    facts = [pending.add(fact(f"j{n}")) for n in range(5)]
    assert pending.batch(3) == pending.batch(3) == facts[:3]
    appended = Appended(
        events=(stored(facts[0].event, 7), stored(facts[2].event, 8)),
        indexes=(0, 2),
        duplicates=(Duplicate(index=1, position=3, same=True),),
        now_us=1,
    )
    pending.settle(appended, facts[:3])
    assert [one.position.result() for one in facts[:3]] == [7, 3, 8]
    assert pending.batch() == facts[3:]


async def test_a_fact_found_in_the_log_is_taken_off_once():
    pending = PendingFacts()
    twins = [pending.add(fact("j")) for _ in range(2)]
    assert pending.found(stored(fact("other"), 1)) is None
    assert pending.found(stored(fact("j"), 2)) is twins[0]
    assert pending.found(stored(fact("j"), 3)) is twins[1]
    assert pending.found(stored(fact("j"), 4)) is None
    assert [one.position.result() for one in twins] == [2, 3]


async def test_who_waits_is_told_when_leadership_ends():
    pending = PendingFacts()
    one = pending.add(fact("j"))
    pending.cancel()
    assert one.position.cancelled()
    assert len(pending) == 0


async def test_who_gave_up_waiting_does_not_keep_the_fact_out_of_the_log():
    pending = PendingFacts()
    one = pending.add(fact("j"))
    one.position.cancel()
    assert pending.batch() == [one]
    assert pending.found(stored(one.event, 1)) is one


@pytest.mark.parametrize("count", [1, 2])
async def test_it_is_full_at_its_limit(count, monkeypatch):
    monkeypatch.setattr(module, "PENDING_FACTS_MAX", 2)
    pending = PendingFacts()
    for _ in range(count):
        pending.add(fact("j"))
    assert pending.full == (count == 2)
