"""The loop of turns: from a request to its answer, and what faults leave of it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from headrace.bus.interface import NoReply
from headrace.events import decode_header
from headrace.events.gangs import GangPlaced, GuardTripped
from headrace.events.jobs import JobCancelling, JobCancelRefused, JobCancelRequested, JobHeld
from headrace.events.platform import ServiceLed
from headrace.runtime.host import FOLLOW_S
from headrace.runtime.reader import READ_EVENTS_MAX
from headrace.store.interface import APPEND_EVENTS_MAX
from headrace.store.ledger_rows import GuardRow

from .rig import EPOCH_US, HELD_US, Rig, eligible, until, virtual


@virtual
async def test_a_request_becomes_a_fact_a_decision_and_an_answer():
    rig = Rig()
    await rig.leading()
    answer = await rig.ask("j", key="k")
    fact, decision = rig.log.events[-2:]
    assert answer == {"accepted": True, "position": decision.position, "job": "j"}
    assert (fact.type, decision.type) == ("job.cancel_requested.v1", "job.cancelling.v1")
    header = decode_header(decision.header)
    assert (header.causation, header.basis) == (fact.position, fact.position)
    assert (header.request_key, header.index, header.count) == ("k", 0, 1)
    assert EPOCH_US < header.decided_at_us <= decision.recorded_at_us


@virtual
async def test_a_refused_request_says_why():
    rig = Rig()
    await rig.leading()
    answer = await rig.ask("bad")
    assert not answer["accepted"]
    assert answer["position"] == len(rig.log.events)
    assert answer["message"] == "refused: job = bad — is not to be"
    assert answer["refusal"]["rule"] == "is not to be"


@virtual
async def test_leading_is_told_first_with_the_numbers_that_decide():
    rig = Rig()
    await rig.leading()
    (led,) = rig.events(ServiceLed)
    assert (led.service, led.epoch, led.decision_version) == ("placement", 1, "v1")
    assert led.settings == {"held_us": HELD_US}


@virtual
async def test_the_same_request_has_the_same_answer_and_happens_once():
    rig = Rig()
    host = await rig.leading()
    first, *others = await asyncio.gather(*(rig.ask("j", key="k") for _ in range(5)))
    assert [first] * 4 == others
    await rig.end(host)
    await rig.leading("b")
    assert await rig.ask("j", key="k") == first
    assert len(rig.events(JobCancelRequested)) == 1


@virtual
async def test_another_request_under_a_used_key_is_refused():
    rig = Rig()
    await rig.leading()
    first = await rig.ask("j", key="k")
    answer = await rig.ask("other", key="k")
    assert not answer["accepted"]
    assert f"was used at position {first['position'] - 1} for a different" in answer["message"]
    assert len(rig.events(JobCancelRequested)) == 1


@virtual
async def test_how_a_request_is_written_does_not_make_it_another():
    rig = Rig()
    await rig.leading()
    first = await rig.ask(key="k", body=b'{"job":"j","note":"n"}')
    assert await rig.ask(key="k", body=b' { "note" : "n",\n"job":"\\u006a"} ') == first


@virtual
async def test_what_cannot_be_understood_is_answered_kept_apart_and_not_in_the_log():
    rig = Rig()
    host = await rig.leading()
    before = len(rig.log.events)
    for body, verb in ((b"\xff", "job.cancel"), (b"{}", "job.cancel"), (b"{}", "job.sing")):
        answer = await rig.ask(body=body, verb=verb)
        assert (answer["accepted"], answer["position"]) == (False, 0)
    assert len(rig.log.events) == before
    letters = [m.data for m in rig.broker.streams["DEADLETTER"].messages.values()]
    assert letters == [b"\xff", b"{}", b"{}"]
    assert host.counters["requests_refused_at_door"] == 3


@virtual
async def test_a_request_whose_body_nobody_reads_is_answered_whatever_it_is():
    rig = Rig()
    await rig.leading()
    for number, body in enumerate((b"", b"\xff{", b"[" * 100_000)):
        sent = {"verb": "job.anything", "key": f"k{number}", "body": body, "door": "gateway.ads"}
        answer = await rig.ask(**sent)
        assert answer["accepted"]
        assert await rig.ask(**sent) == answer


@virtual
async def test_what_the_logs_guard_refuses_becomes_an_alarm_and_another_decision():
    rig = Rig()
    host = await rig.leading()
    assert (await rig.ask("place-1"))["accepted"]
    rig.log.guards["gpu/g"] = GuardRow(
        key="gpu/g", used=1000, limit=1000, delta=1000
    )  # as it is; the decider does not look
    answer = await rig.ask("place-2")
    assert not answer["accepted"]
    assert rig.events(GuardTripped) == [GuardTripped(device="g", job="place-2", attempt=1)]
    assert len(rig.events(GangPlaced)) == 1
    assert host.counters["guards_tripped"] == 1


@virtual
async def test_an_append_whose_outcome_is_unknown_happens_once():
    for point in ("append.after", "append.before"):
        rig = Rig()
        await rig.leading()
        rig.fails.add(f"a {point}")
        answer = await rig.ask("j")
        assert answer["accepted"]
        assert rig.fails == set()
        assert len(rig.events(JobCancelRequested)) == len(rig.events(JobCancelling)) == 1


@virtual
async def test_a_decision_whose_commit_was_unknown_is_answered_and_followed_by_its_effects():
    rig = Rig()
    host = await rig.leading()
    rig.fails.add("a append.after")
    host.record(JobCancelRequested(job="x", project="ads", user="u"))
    await until(lambda: not rig.fails)
    rig.fails.add("a append.after")
    answer = await rig.ask("j")
    assert answer["accepted"]
    await until(lambda: rig.shells["a"].seen[-1:] == [len(rig.log.events)])
    assert rig.shells["a"].seen == list(range(2, len(rig.log.events) + 1))


@virtual
async def test_a_store_that_fails_between_two_pages_keeps_no_effect_back():
    rig = Rig()
    host = await rig.leading()
    for first in range(0, READ_EVENTS_MAX, APPEND_EVENTS_MAX):
        await rig.append(*(eligible(first + n) for n in range(APPEND_EVENTS_MAX)))

    def fail_after_the_first_page(stored):
        if len(stored) == READ_EVENTS_MAX:
            rig.fails.add("a read.before")

    host.on_folded = fail_after_the_first_page
    answer = await rig.ask("j")
    assert answer["accepted"]
    assert rig.fails == set()
    await until(lambda: rig.shells["a"].seen[-1:] == [len(rig.log.events)])
    assert rig.shells["a"].seen == list(range(2, len(rig.log.events) + 1))


@virtual
async def test_a_recorded_fact_tells_where_it_is():
    rig = Rig()
    host = await rig.leading()
    fact = JobCancelRequested(job="x", project="ads", user="u")
    positions = await asyncio.gather(host.record(fact), host.record(fact))
    assert [rig.log.events[p - 1].type for p in positions] == ["job.cancel_requested.v1"] * 2
    assert positions[0] < positions[1]


@virtual
async def test_effects_come_after_the_append_in_order_and_once():
    rig = Rig()
    await rig.leading()
    await asyncio.gather(*(rig.ask(f"j{n}") for n in range(20)))
    await until(lambda: rig.shells["a"].seen[-1:] == [len(rig.log.events)])
    assert rig.shells["a"].seen == list(range(2, len(rig.log.events) + 1))
    assert rig.shells["a"].told == [("lead", 1, 1)]


@virtual
async def test_time_alone_can_be_a_reason_to_decide():
    rig = Rig()
    await rig.leading()
    (stored,) = await rig.append(eligible(1))
    await until(lambda: rig.events(JobHeld))
    late_us = rig.log.events[-1].recorded_at_us - stored.recorded_at_us - HELD_US
    assert 0 <= late_us < 100_000


@virtual
async def test_what_another_service_appended_is_folded_although_nothing_was_heard():
    rig = Rig()
    host = await rig.leading()
    await rig.append(*(eligible(n) for n in range(3)))
    await until(lambda: host.position == len(rig.log.events))
    assert host.state.hold_at_us


@virtual
async def test_who_is_fenced_stops_and_follows():
    rig = Rig()
    host = await rig.leading()
    head = rig.log.services["placement"]
    head.epoch, head.holder, head.lease_until_us = 7, "b", 2**60
    await until(lambda: "close" in rig.shells["a"].told)
    assert not host.leading
    await rig.append(eligible(1))
    await until(lambda: host.position == len(rig.log.events))
    assert len(rig.events(ServiceLed)) == 1


@pytest.mark.parametrize(
    "later_s", [0.0, 0.45, 0.9]
)  # than the first, so polls later than it renews
@pytest.mark.parametrize("after_s", [0.0, 0.3, 0.6, 0.9, 1.2])
@virtual
async def test_a_second_instance_takes_over_within_three_seconds_and_answers(after_s, later_s):
    rig = Rig()
    await rig.leading("a")
    first = await rig.ask("j", key="k")
    await asyncio.sleep(later_s)
    second = await rig.start("b")
    await until(lambda: second.position == len(rig.log.events))
    assert not second.leading
    await asyncio.sleep(after_s)
    await rig.kill("a")
    killed_s = asyncio.get_running_loop().time()
    await until(lambda: second.leading)
    assert await rig.ask("j", key="k") == first
    assert asyncio.get_running_loop().time() - killed_s <= 3.2
    assert [led.epoch for led in rig.events(ServiceLed)] == [1, 2]


@virtual
async def test_who_leads_no_more_refuses_nothing_by_what_it_knew():
    rig = Rig()
    host = await rig.leading()
    host.epoch = 0  # its lease could not be renewed, and its loop does not know it yet
    with pytest.raises(NoReply):
        await rig.bus.request("headrace.gateway.ads.job.cancel", b"{}", {"ce-id": "k"}, 0.01)
    assert host.counters["requests_refused_at_door"] == 0


@virtual
async def test_who_stops_gives_the_lead_away_at_once():
    rig = Rig()
    first, second = await rig.leading("a"), await rig.start("b")
    await rig.end(first, "a")
    began_s = asyncio.get_running_loop().time()
    await until(lambda: second.leading)
    assert asyncio.get_running_loop().time() - began_s <= FOLLOW_S + 0.1
    assert rig.running["a"].exception() is None


@virtual
async def test_a_restart_from_a_snapshot_has_the_same_state():
    rig = Rig()
    first = await rig.leading("a")
    for number in range(5):
        await rig.ask(f"j{number}")
    await rig.end(first, "a")
    assert rig.log.snapshots["placement"]
    second, third = await rig.leading("b"), await rig.start("c", "other code")
    await until(lambda: third.position == second.position)
    assert msgspec.json.encode(second.state) == msgspec.json.encode(third.state)
    assert second.state.decided == 5


@virtual
async def test_a_request_that_nobody_led_for_is_answered_by_the_next_leader():
    rig = Rig()
    asking = asyncio.create_task(rig.ask("j"))
    await rig.leading()
    assert (await asking)["accepted"]


@virtual
async def test_a_store_that_is_away_for_a_while_ends_nothing():
    rig = Rig()
    host = await rig.leading()
    for point in ("read.before", "renew.before", "append.before"):
        rig.fails.add(f"a {point}")
    assert (await rig.ask("j"))["accepted"]
    await until(lambda: not rig.fails)
    await until(lambda: host.leading)
    assert not rig.running["a"].done()


@virtual
async def test_nobody_can_bid_for_more_than_the_decider_says():
    rig = Rig()
    await rig.leading()
    answers = await asyncio.gather(*(rig.ask("bad" if n % 2 else "j") for n in range(10)))
    assert [answer["accepted"] for answer in answers] == [True, False] * 5
    assert len(rig.events(JobCancelling)) == len(rig.events(JobCancelRefused)) == 5
