"""Events and output as they happen, over HTTP."""

import asyncio
import itertools
import re

import msgspec
import pytest
from tests.gateway.histories import (
    RUN,
    SECOND_US,
    SUCCEEDED,
    admitted,
    finished,
    placed,
    released,
    requested,
    started,
    worker_exited,
)
from tests.gateway.people import configured
from tests.gateway.test_api import raw
from tests.gateway.world import until

from headrace.bus.agents import LogsChunk, LogsWanted
from headrace.client import ClientError, NotFound, Refused
from headrace.gateway.app import application
from headrace.gateway.events_api import position_before
from headrace.gateway.server import Server, listen


def taken(iterator, count):
    return list(itertools.islice(iterator, count))


async def test_events_come_as_they_are_appended_and_go_on_after_a_position(world):
    await world.append(*RUN)
    follow = world.call(taken, world.client().events(after=4, follow=True), 4)
    reading = asyncio.create_task(follow)
    await world.append(worker_exited())
    await world.append(released())
    events = await reading
    assert [event.position for event in events] == [5, 6, 7, 8]
    assert events[-1].type == "gang.released.v1"


async def test_who_follows_one_job_hears_its_next_step_before_the_beat_of_those_who_follow_all(
    world, monkeypatch
):
    monkeypatch.setattr("headrace.gateway.events_api.BEAT_S", 3_600.0)
    await world.gateway.follower.reached(await world.append(*RUN))
    of_it = [event for event in RUN if event.job == "hello-a"]
    stream = world.client().events(job="hello-a", follow=True)
    await world.call(taken, stream, len(of_it))
    await world.append(worker_exited())
    await world.append(released())
    later = await world.call(taken, stream, 2)
    assert later[-1].type == "gang.released.v1"


async def test_a_job_is_waited_for_until_it_has_ended(world):
    await world.gateway.follower.reached(await world.append(*RUN))
    waiting = asyncio.create_task(world.call(world.client().wait, "hello"))
    await until(lambda: len(world.gateway.streams._taken) > 0)
    ended = finished(outcome="failed", reason="error", message="exit code 3", exit_code=3)
    await world.append(worker_exited(), released(), ended)
    row = await waiting
    assert (row.job, row.state, row.exit_code) == ("hello-a", "failed", 3)
    assert await world.call(world.client().wait, "hello") == row


async def test_events_of_one_job_are_its_own_and_its_tasks(world):
    await world.append(
        requested("lr-x", trials=({}, {}), kind_of_group="sweep"),
        requested("other-c"),
        admitted("lr-x", tasks=2),
        admitted("lr-x/0", group="lr-x"),
    )
    await world.gateway.follower.reached(4)
    found = await world.call(taken, world.client().events(job="lr-x"), 99)
    assert [event.data["job"] for event in found] == ["lr-x", "lr-x", "lr-x/0"]


async def test_events_are_chosen_by_type_and_project(world):
    made = (configured("ads", "research"), requested("ads-a", project="ads"))
    await world.gateway.follower.reached(await world.append(*SUCCEEDED, *made))
    client = world.client()
    gangs = await world.call(taken, client.events(type_prefix="gang."), 99)
    assert [event.type for event in gangs] == ["gang.placed.v1", "gang.released.v1"]
    ads = await world.call(taken, client.events(project="ads"), 99)
    assert [event.data["job"] for event in ads] == ["ads-a"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"project": "adz"}, "project = adz — is no project that you see; did you mean ads?"),
        ({"type_prefix": "gnag."}, "type = gnag. — no event's type begins so; did you mean gang?"),
        ({"job": "hello-a/x"}, "job = hello-a/x — is no job; hello-a/0 is a task"),
    ],
)
async def test_events_that_there_can_be_none_of_are_refused(world, words, line):
    await world.gateway.follower.reached(await world.append(configured("ads", "research"), *RUN))
    for follow in (True, False):
        with pytest.raises(Refused, match=re.escape(line)):
            await world.call(taken, world.client().events(**words, follow=follow), 1)


async def test_who_goes_on_from_where_the_log_is_not_yet_is_told_so(world, monkeypatch):
    await world.gateway.follower.reached(await world.append(*RUN))
    monkeypatch.setattr("headrace.gateway.follower.OWN_WRITE_S_MAX", 0.05)
    for follow in (True, False):
        with pytest.raises(Refused, match="after = 99 — is beyond the log, which ends at 6"):
            await world.call(taken, world.client().events(after=99, follow=follow), 1)
    for position in ("abc", "9" * 5_000, "²"):
        said = {"Last-Event-ID": position.encode().decode("latin-1")}
        status, _ = await world.call(raw, world, "GET", "/v1/events", None, said)
        assert status == 400


async def test_a_long_way_without_what_is_wanted_is_gone_to_its_end(world, monkeypatch):
    monkeypatch.setattr("headrace.gateway.events_api.SCANNED_EVENTS_MAX", 2)
    far = [requested(f"j-{index}") for index in range(600)]
    await world.gateway.follower.reached(await world.append(*far, *RUN))
    gangs = await world.call(taken, world.client().events(type_prefix="gang."), 99)
    assert [event.type for event in gangs] == ["gang.placed.v1"]


async def test_events_since_a_time_begin_there(world):
    await world.append(*SUCCEEDED)
    await world.gateway.follower.reached(len(SUCCEEDED))
    found = await world.call(taken, world.client().events(since_us=5 * SECOND_US), 99)
    assert found[0].at_us >= 5 * SECOND_US
    assert found[0].position == 5


@pytest.mark.parametrize("at_s", [0, 1, 4, 9, 99])
async def test_the_position_of_a_time_is_the_last_one_before_it(world, at_s):
    await world.append(*SUCCEEDED)
    found = await position_before(world.store, len(SUCCEEDED), at_s * SECOND_US)
    assert found == sum(event.recorded_at_us < at_s * SECOND_US for event in world.log.events)


async def test_old_events_are_read_from_the_log(world):
    await world.append(*SUCCEEDED)
    await world.gateway.follower.reached(len(SUCCEEDED))
    world.gateway.follower._recent.clear()
    found = await world.call(taken, world.client().events(), 99)
    assert [event.position for event in found] == list(range(1, len(SUCCEEDED) + 1))


async def test_pages_of_events_go_on_where_the_last_one_ended(world):
    await world.append(*(requested(f"j-{index}") for index in range(1_200)))
    await world.gateway.follower.reached(1_200)
    found = await world.call(taken, world.client().events(), 9_999)
    assert [event.position for event in found] == list(range(1, 1_201))


class Agent:
    """Plays the agents of a node: output by attempt and rank, as far as it was written."""

    def __init__(self, world, node="n1"):
        self.world, self.node = world, node
        self.output: dict[tuple[int, int], bytes] = {}
        self.ended: set[tuple[int, int]] = set()
        self.asked_for: dict[int, asyncio.Event] = {1: asyncio.Event(), 2: asyncio.Event()}

    async def start(self):
        await self.world.bus.subscribe(f"headrace.agent.{self.node}.down.logs", self._asked)
        return self

    async def _asked(self, message):
        wanted = msgspec.json.decode(message.data, type=LogsWanted)
        self.asked_for[wanted.attempt].set()
        where = (wanted.attempt, wanted.rank)
        if where not in self.output:
            chunk = LogsChunk(offset=wanted.offset, missing="no such attempt here")
        else:
            size = len(self.output[where])
            at = wanted.offset if wanted.offset >= 0 else max(0, size + wanted.offset)
            data = self.output[where][at:][:4]
            ended = at + len(data) == size and where in self.ended
            chunk = LogsChunk(offset=at, data=data, ended=ended)
        await self.world.bus.publish(message.reply, msgspec.json.encode(chunk))


def text_of(pieces):
    return "".join(piece.text for piece in pieces)


async def test_output_is_read_to_its_end(world):
    agent = await Agent(world).start()
    agent.output[1, 0] = "grüße\nfrom a worker\n".encode()
    agent.ended.add((1, 0))
    await world.append(*SUCCEEDED)
    await world.gateway.follower.reached(len(SUCCEEDED))
    pieces = await world.call(list, world.client().logs("hello-a"))
    assert text_of(pieces) == "grüße\nfrom a worker\n"
    assert pieces[-1].ended


async def test_following_waits_for_the_worker_and_then_for_its_output(world):
    agent = await Agent(world).start()
    await world.append(requested(), admitted())
    await world.gateway.follower.reached(2)
    reading = asyncio.create_task(world.call(list, world.client().logs("hello-a", follow=True)))
    await world.append(placed())
    agent.output[1, 0] = b"one\n"
    await world.append(started())
    agent.output[1, 0] += b"two\n"
    agent.ended.add((1, 0))
    await world.append(worker_exited(), released(), finished())
    assert text_of(await reading) == "one\ntwo\n"


async def test_following_goes_on_with_the_next_attempt(world):
    agent = await Agent(world).start()
    agent.output |= {(1, 0): b"first\n", (2, 0): b"second\n"}
    agent.ended |= {(1, 0), (2, 0)}
    await world.append(*RUN)
    await world.gateway.follower.reached(6)
    reading = asyncio.create_task(world.call(list, world.client().logs("hello-a", follow=True)))
    await agent.asked_for[1].wait()
    await world.append(released(again=True), placed(attempt=2), finished())
    pieces = await reading
    assert {piece.attempt: piece.text for piece in pieces if piece.ended} == {
        1: "t\n",
        2: "nd\n",
    }


async def test_output_goes_on_from_an_offset(world):
    agent = await Agent(world).start()
    agent.output[1, 0] = b"0123456789"
    agent.ended.add((1, 0))
    await world.append(*SUCCEEDED)
    await world.gateway.follower.reached(len(SUCCEEDED))
    client = world.client()
    query = {"offsets": "1.0.0.7"}
    lines = await world.call(list, client._http.stream("/v1/jobs/hello-a/logs", query, {}))
    assert b"".join(lines).count(b'"text":"789"') == 1


async def test_a_node_that_does_not_answer_is_named(world, monkeypatch):
    monkeypatch.setattr("headrace.gateway.logs.REPLY_S_MAX", 0.01)
    monkeypatch.setattr("headrace.gateway.logs.RETRY_S", 0.01)
    await world.append(*SUCCEEDED)
    await world.gateway.follower.reached(len(SUCCEEDED))
    pieces = await world.call(list, world.client().logs("hello-a"))
    assert pieces[-1].missing == "node n1 does not answer"


async def test_the_output_of_a_sweep_asks_for_one_trial(world):
    await world.append(
        requested("lr-x", trials=({}, {}), kind_of_group="sweep"), admitted("lr-x", tasks=2)
    )
    await world.gateway.follower.reached(2)
    with pytest.raises(ClientError, match="name one trial; lr-x/0"):
        await world.call(list, world.client().logs("lr-x"))


async def test_the_output_of_a_worker_that_was_not_is_refused(world):
    await world.gateway.follower.reached(await world.append(*SUCCEEDED))
    client = world.client()
    for wanted, line in (
        ({"rank": 7}, "rank = 7 — is no worker of this job; ranks: 0"),
        ({"attempt": 9}, "attempt = 9 — is none of this job; attempts: 1"),
    ):
        with pytest.raises(Refused, match=re.escape(line)):
            await world.call(lambda wanted=wanted: list(client.logs("hello-a", **wanted)))


async def test_the_output_of_nobody_is_not_found(world):
    with pytest.raises(NotFound):
        await world.call(list, world.client().logs("nobody-x"))


async def test_a_gateway_that_stops_ends_its_streams_at_once(world, monkeypatch):
    monkeypatch.setattr("headrace.gateway.events_api.HEARTBEAT_S", 3_600.0)
    await world.append(*RUN)
    stream = world.client()._http.stream("/v1/events", {}, {"Accept": "text/event-stream"})
    reading = asyncio.create_task(world.call(list, stream))
    await until(lambda: world.gateway.follower._changed._waiters)  # for the next event
    world.gateway.follower.close()
    await reading


async def test_a_server_that_is_stopped_answers_what_is_in_flight(world):
    listening = listen("127.0.0.1:0")
    server = Server(application(world.gateway), listening)
    serving = asyncio.create_task(server.run_until_stopped())
    await server.up.wait()
    await world.append(*RUN)
    world.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slowly(message):
        asked.set()
        await answer.wait()
        await world.bus.publish(message.reply, b'{"accepted": true, "position": 0}')

    await world.bus.subscribe("headrace.gateway.*.job.submit", slowly)
    submitting = asyncio.create_task(world.call(world.client().submit, {"name": "x"}))
    await asked.wait()
    server.stop()
    answer.set()
    assert (await submitting).accepted
    await serving
