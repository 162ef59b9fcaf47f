"""Several requests in one message are received and answered as if each had come alone."""

import asyncio

import msgspec
from tests.runtime.rig import WAIT_S, Rig, virtual

from headrace.events.jobs import JobCancelRequested
from headrace.runtime import together

SUBJECT = "headrace.{door}.ads.job.cancel"
ENVELOPE = {"ce-id": "k", "ce-source": "/etl", "ce-type": "headrace.job.cancel.v1"}


def request(key, body=b'{"job": "j"}', actor="ada"):
    return together.Request({"ce-id": key, "Headrace-Actor": actor}, body)


async def answers(rig, *requests, door="gateway"):
    data, headers = together.message_of(requests)
    subject = SUBJECT.format(door=door)
    reply = await rig.bus.request(subject, data, headers, timeout_s=WAIT_S)
    return [answer and msgspec.json.decode(answer) for answer in together.answers_of(reply.data)]


@virtual
async def test_each_has_its_own_answer_in_their_order():
    rig = Rig()
    host = await rig.leading()
    found = await answers(
        rig, request("1"), request("2", b"?"), request("3", b'{"job": "k"}', "ben"), request("1")
    )
    assert [answer["accepted"] for answer in found] == [True, False, True, True]
    assert found[1]["message"] == "refused: body — names a job"
    assert found[0]["position"] == found[3]["position"] < found[2]["position"]
    asked = rig.events(JobCancelRequested)
    assert [(each.job, each.user) for each in asked] == [("j", "ada"), ("k", "ben")]
    await rig.end(host)


@virtual
async def test_one_that_fails_is_not_answered_and_keeps_nobody_waiting():
    rig = Rig()
    host = await rig.leading()
    found = await answers(rig, request("1"), request("2", b'{"job": "unread"}'), request("3"))
    assert [bool(answer) for answer in found] == [True, False, True]
    assert host.counters["handler_errors"] == 1
    await rig.end(host)


@virtual
async def test_only_the_gateway_speaks_for_others():
    rig = Rig()
    host = await rig.leading()
    data, headers = together.message_of([request("1")])
    subject = "headrace.request.ads.etl.job.cancel"
    reply = await rig.bus.request(subject, data, {**headers, **ENVELOPE}, timeout_s=WAIT_S)
    assert not msgspec.json.decode(reply.data)["accepted"]
    assert rig.events(JobCancelRequested) == []
    await rig.end(host)


async def test_answers_are_sent_once_and_late_ones_not_at_all():
    sent = asyncio.Queue()

    async def send(data):
        sent.put_nowait(together.answers_of(data))

    answering = together.Answers(2, send)
    first, second = answering.taking(0), answering.taking(1)
    await first({"accepted": True})
    assert await asyncio.wait_for(sent.get(), WAIT_S) == [b'{"accepted":true}', b""]
    await second({"accepted": True})
    assert sent.empty()
