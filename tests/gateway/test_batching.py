"""What asks a service while others wait for its answer goes in one message, and each asker has an
answer of its own.
"""

import asyncio

import msgspec
from tests.gateway.world import TIMEOUT_S
from tests.runtime.rig import virtual

from headrace.bus.interface import NoReply
from headrace.bus.memory import MemoryBroker, MemoryBus
from headrace.gateway.batching import IN_FLIGHT_MAX, Batching
from headrace.runtime import together

SUBJECT = "headrace.gateway.ads.job.submit"
MANY = 150


class Owner:
    """Answers each request with its own key and body, but for those in `silent`, and all while it is gone."""

    def __init__(self, bus):
        self._bus = bus
        self.silent = set()
        self.is_gone = False
        self.sizes = []  # how many requests each message had

    async def __call__(self, message):
        if together.HEADER not in message.headers:
            self.sizes.append(1)
            if not self.is_gone:
                await self._bus.publish(message.reply, _answer(message))
            return
        requests = list(together.requests_of(message))
        self.sizes.append(len(requests))
        given = [
            b"" if each.headers["ce-id"] in self.silent else _answer(each) for each in requests
        ]
        await self._bus.publish(message.reply, msgspec.msgpack.encode(given))


def _answer(message):
    return message.headers["ce-id"].encode() + b" " + message.data


async def an_owner():
    broker = MemoryBroker()
    made = Owner(MemoryBus(broker, "admission"))
    await MemoryBus(broker, "listening").subscribe(SUBJECT, made)
    made.batching = Batching(MemoryBus(broker, "gateway"))
    return made


def asking(owner, count, body=b"{}"):
    ask = owner.batching.request
    asked = (ask(SUBJECT, body, {"ce-id": f"k{n}"}, TIMEOUT_S) for n in range(count))
    return asyncio.gather(*asked, return_exceptions=True)


@virtual
async def test_many_of_one_moment_share_messages_and_each_has_its_own_answer():
    owner = await an_owner()
    assert await asking(owner, MANY) == [b"k%d {}" % n for n in range(MANY)]
    assert owner.sizes[:IN_FLIGHT_MAX] == [1] * IN_FLIGHT_MAX
    assert sum(owner.sizes) == MANY
    assert max(owner.sizes) == together.REQUESTS_MAX


@virtual
async def test_what_is_large_travels_in_messages_that_a_bus_takes():
    owner = await an_owner()
    body = b"x" * (together.BODIES_BYTES_MAX // 3)
    answers = await asking(owner, IN_FLIGHT_MAX + 8, body)
    assert answers == [b"k%d " % n + body for n in range(IN_FLIGHT_MAX + 8)]
    assert owner.sizes == [1] * IN_FLIGHT_MAX + [3, 3, 2]


@virtual
async def test_who_is_not_answered_with_the_others_is_told_so():
    owner = await an_owner()
    owner.silent = {f"k{IN_FLIGHT_MAX + 1}"}
    answers = await asking(owner, IN_FLIGHT_MAX + 8)
    assert isinstance(answers.pop(IN_FLIGHT_MAX + 1), NoReply)
    assert answers == [b"k%d {}" % n for n in range(IN_FLIGHT_MAX + 8) if n != IN_FLIGHT_MAX + 1]


@virtual
async def test_where_nobody_listens_everybody_is_told():
    owner = await an_owner()
    asked = (owner.batching.request("headrace.gateway.ads.job.x", b"", {}, 1.0) for _ in range(9))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [NoReply] * 9


@virtual
async def test_what_was_sent_to_a_leader_that_is_no_more_makes_room_for_what_waits():
    owner = await an_owner()
    owner.is_gone = True
    asked = asking(owner, 2 * IN_FLIGHT_MAX)
    async with asyncio.timeout(TIMEOUT_S / 2):
        while len(owner.sizes) < IN_FLIGHT_MAX:  # noqa: ASYNC110 -- it is not ours to say
            await asyncio.sleep(0.001)
        owner.is_gone = False
        owner.batching.give_up()
        answers = await asked
    assert [type(answer) for answer in answers[:IN_FLIGHT_MAX]] == [NoReply] * IN_FLIGHT_MAX
    assert answers[IN_FLIGHT_MAX:] == [
        b"k%d {}" % n for n in range(IN_FLIGHT_MAX, 2 * IN_FLIGHT_MAX)
    ]
