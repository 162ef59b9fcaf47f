"""How many requests are taken, and what the others are told."""

import asyncio

import pytest
from tests.gateway.people import person, secret_of, tree
from tests.gateway.test_api import raw

from headrace.gateway.errors import TooMany
from headrace.gateway.fair_cache import FairCache
from headrace.gateway.limiting import (
    AGAIN_S_MAX,
    ANSWERED_S,
    BURST,
    CHANGES_FIRST,
    CHANGES_LEAST,
    CHANGES_MAX,
    COUNTED_S,
    FEW,
    LEFT_AT_ONCE,
    REFILL_PER_S,
    Limiter,
    Room,
    Slots,
)
from headrace.runtime.limits import Limit

BODY = b'{"name": "t", "command": ["true"]}'


async def test_strangers_from_one_address_are_slowed_down_and_who_is_known_is_not(world):
    known = await world.append(*tree(), *person("ada", ("viewer", "vision")))
    await world.gateway.follower.reached(known)
    now_s = 0.0  # however long the knocks take
    world.gateway.strangers = Limiter(lambda: now_s)

    def knock(times):
        return [raw(world, "GET", "/v1/jobs", token="nobody")[0] for _ in range(times)]

    assert await world.call(knock, BURST + 10) == [401] * BURST + [429] * 10
    assert (await world.call(raw, world, "GET", "/v1/jobs", token=secret_of("ada")))[0] == 200
    now_s += 2
    assert await world.call(knock, 11) == [401] * 2 * REFILL_PER_S + [429]


async def test_one_change_more_than_there_is_room_for_is_told_to_come_again(world, monkeypatch):
    monkeypatch.setattr(world.gateway.rooms["job"], "most", 2)
    monkeypatch.setattr("headrace.gateway.limiting.CHANGES_MAX", 2)
    asked, held, is_slow = asyncio.Semaphore(0), [], True

    async def reply(message):
        await world.bus.publish(message.reply, b'{"accepted": true, "position": 0, "job": "t-1"}')

    async def owner(message):
        if not is_slow:
            await reply(message)
            return
        held.append(message)
        asked.release()

    await world.bus.subscribe("headrace.gateway.*.job.submit", owner)
    submit = (raw, world, "POST", "/v1/jobs", BODY)
    waiting = [asyncio.create_task(world.call(*submit)) for _ in range(2)]
    await asked.acquire()
    await asked.acquire()
    status, said = await world.call(*submit)
    assert status == 429
    assert b"2 requests of admin and 0 of others wait for an answer" in said
    assert (await world.call(retry_after, world))[0] == "1"
    # a client comes again by itself, and is taken once there is room
    patient = asyncio.create_task(world.call(world.client().submit, BODY))
    is_slow = False
    for message in held:
        await reply(message)
    assert [each[0] for each in await asyncio.gather(*waiting)] == [201, 201]
    assert (await patient).job == "t-1"


def retry_after(world):
    import http.client
    from urllib.parse import urlsplit

    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
    connection.request("POST", "/v1/jobs", BODY, {"Authorization": "Bearer a-token-for-tests"})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.getheader("Retry-After"), response.status


class Waiting:
    """Changes that wait in a room, at times that a test says."""

    def __init__(self):
        self.at_s = 0.0
        self.room = Room(lambda: self.at_s)
        self._left = []

    def come(self, asker="ada", count=1, project="ads"):
        """So many come; how many of them are taken."""
        for number in range(count):
            change = self.room.taken(project, asker)
            try:
                change.__enter__()
            except TooMany:
                return number
            self._left.append(change)
        return count

    def answer(self, count):
        """The first ones are answered."""
        for change in self._left[:count]:
            change.__exit__(None, None, None)
        del self._left[:count]


@pytest.fixture
def waiting():
    return Waiting()


def test_room_is_given_back(waiting):
    assert waiting.come(count=99) == CHANGES_FIRST
    waiting.answer(3)
    assert waiting.come(count=99) == 3


def test_where_answers_take_too_long_fewer_wait_and_more_again_when_they_do_not(waiting):
    waiting.come(count=CHANGES_FIRST)
    waiting.answer(FEW)
    waiting.at_s += 4 * ANSWERED_S
    waiting.answer(CHANGES_FIRST)
    fewer = waiting.room.most
    assert fewer == int(CHANGES_FIRST * LEFT_AT_ONCE)  # they tell of the same moment
    for _ in range(20):
        waiting.come(count=fewer)
        waiting.answer(FEW)
        waiting.at_s += 4 * ANSWERED_S
        waiting.answer(fewer)
    assert waiting.room.most == CHANGES_LEAST
    for _ in range(CHANGES_MAX):
        waiting.come(count=waiting.room.most)
        waiting.answer(waiting.room.most)
    assert waiting.room.most == CHANGES_MAX


def test_who_finds_no_room_is_told_to_come_when_the_others_are_answered(waiting):
    def after_s():
        with pytest.raises(TooMany) as told, waiting.room.taken("ads", "ada"):
            pass
        return told.value.retry_after_s

    waiting.come(count=CHANGES_FIRST)
    assert after_s() == 1
    for _ in range(299):
        after_s()
    waiting.answer(100)  # as many as wait
    waiting.at_s += 1.1 * COUNTED_S
    waiting.come(count=CHANGES_MAX)
    assert after_s() == -(-300 // CHANGES_FIRST)
    waiting.at_s += 1.1 * COUNTED_S
    assert after_s() == 2  # one of those who came, and who was told just now
    for _ in range(99):
        after_s()
    waiting.at_s += 1.1 * COUNTED_S
    assert after_s() == AGAIN_S_MAX  # for nobody was answered


def test_so_many_wait_as_are_answered_in_time(waiting):
    """One answer every 2 ms: what is taken of twice as many is answered soon."""
    took_s, began = [], []
    for step in range(4_000):
        waiting.at_s = step * 0.001
        if waiting.come():
            began.append(waiting.at_s)
        if step % 2 and began:
            took_s.append(waiting.at_s - began.pop(0))
            waiting.answer(1)
    late = [each for each in took_s[len(took_s) // 4 :] if each > 1.3 * ANSWERED_S]
    assert not late
    assert len(took_s) > 1_950  # and whoever answers always had something to do


def test_where_the_work_itself_takes_long_as_many_wait_as_before(waiting):
    for _ in range(20):
        waiting.come(count=CHANGES_FIRST)
        waiting.at_s += 20 * ANSWERED_S
        waiting.answer(CHANGES_FIRST)
    assert waiting.room.most >= CHANGES_FIRST * LEFT_AT_ONCE**2  # until it was known


def test_nobody_takes_all_the_room(waiting):
    assert waiting.come("ada", 99) == CHANGES_FIRST
    assert waiting.come("bob", 99) == CHANGES_FIRST // 2
    assert waiting.come("eve", 99) == CHANGES_FIRST // 3
    assert waiting.come("ada") == 0


def test_a_crowd_of_askers_has_no_more_than_there_is(waiting):
    taken = sum(waiting.come("ada", 99, f"project-{number}") for number in range(1_000))
    assert taken == CHANGES_MAX


@pytest.mark.security
def test_all_the_users_of_one_project_leave_room_for_another_one(waiting):
    noisy = sum(waiting.come(f"user-{number}", 99) for number in range(1_000))
    assert noisy == CHANGES_MAX // 2
    assert waiting.come("ada", 99, "quiet") == CHANGES_FIRST // 2


@pytest.mark.security
def test_somebody_with_few_entries_keeps_them_however_many_another_one_makes():
    cache = FairCache(5)
    cache.put("mine", 1, "ada")
    for number in range(100):
        cache.put(str(number), number, "eve")
    assert (cache.get("mine"), len(cache)) == (1, 5)
    assert [cache.get(str(number)) for number in (95, 96, 99)] == [None, 96, 99]


@pytest.mark.security
def test_one_who_has_as_many_streams_as_one_may_leaves_the_others_theirs():
    each, together = Limit("EACH", 2, is_set=True), Limit("ALL", 3, is_set=False)
    slots = Slots("streams", "user", each, together)
    slots.take("eve")
    slots.take("eve")
    with pytest.raises(TooMany) as told:
        slots.take("eve")
    assert str(told.value) == (
        "refused: streams = 3 — user eve may have at most 2 at a time (EACH, set for this service); "
        "try again when one of them has ended"
    )
    with slots.taken("ada"), pytest.raises(TooMany, match="everybody together may have at most 3"):
        slots.take("bob")
    slots.take("bob")
