"""The streams that copy the log, and what a project sees of it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from headrace.bus.memory import MemoryBus
from headrace.events.asked import Gang
from headrace.events.gangs import GuardTripped
from headrace.events.jobs import JobAdmitted
from headrace.events.platform import LogBegan
from headrace.runtime import log_messages
from headrace.runtime import relay as module
from headrace.runtime.relay import POLL_S, Relay

from .rig import Rig, eligible, until, virtual


class Relays:
    """Relays over one rig, each a process of its own."""

    def __init__(self):
        self.rig = Rig()
        self.running = []

    async def start(self, name="relay"):
        relay = Relay(self.rig.new_store(name), MemoryBus(self.rig.broker, name))
        self.running.append(asyncio.create_task(relay.run()))
        return relay

    def copy(self):
        """The log as its stream has it: sequence and event."""
        stream = self.rig.broker.streams.get("LOG")
        messages = stream.messages if stream else {}
        return {n: log_messages.decode(message.data)[0] for n, message in messages.items()}

    async def caught_up(self):
        """Wait until the stream ends as the log does; the copy."""
        await until(lambda: max(self.copy(), default=0) == len(self.rig.log.events))
        return self.copy()

    def told(self):
        """What projects were told, oldest first."""
        return list(self.rig.broker.streams["EVENTS"].messages.values())


async def fill(rig, count):
    await rig.append(*(eligible(n) for n in range(count)))


@virtual
async def test_an_events_sequence_is_its_position():
    relays = Relays()
    await fill(relays.rig, 250)
    relay = await relays.start()
    await relays.caught_up()
    await fill(relays.rig, 5)
    relay.heard(relays.rig.log.events[250:])
    copy = await relays.caught_up()
    assert list(copy) == list(range(1, 256))
    assert list(copy.values()) == relays.rig.log.events


@virtual
async def test_what_was_not_heard_is_read_and_what_was_heard_during_a_read_is_not_forgotten():
    relays = Relays()
    relay = await relays.start()
    await fill(relays.rig, 2)
    await relays.caught_up()
    await fill(relays.rig, 3)
    relay.heard(relays.rig.log.events[3:])  # a gap before them
    assert list(await relays.caught_up()) == [1, 2, 3, 4, 5]
    relays.rig.slow["relay read.after"] = 1.0
    relay._must_read = True
    relay._grown.set()
    await asyncio.sleep(0.5)
    await fill(relays.rig, 2)
    relay.heard(relays.rig.log.events[5:])
    began_s = asyncio.get_running_loop().time()
    await relays.caught_up()
    assert asyncio.get_running_loop().time() - began_s < 1.0


@virtual
async def test_projects_do_not_wait_for_the_copy_of_what_came_before():
    relays = Relays()
    relay = await relays.start()
    await fill(relays.rig, 1)
    relay.heard(relays.rig.log.events)
    await relays.caught_up()
    copied, may_go_on = relay._bus.store, asyncio.Event()

    async def store(*words):
        await may_go_on.wait()
        return await copied(*words)

    relay._bus.store = store  # a server that takes its time
    for number in range(1, 4):
        await fill(relays.rig, 1)
        relay.heard(relays.rig.log.events[number:])
        await until(lambda told=number + 1: len(relays.told()) == told)
    assert list(relays.copy()) == [1]
    may_go_on.set()
    assert list(await relays.caught_up()) == [1, 2, 3, 4]


@virtual
async def test_no_more_is_told_ahead_of_the_copy_than_may_be_told_again(monkeypatch):
    monkeypatch.setattr(module, "UNCOPIED_EVENTS_MAX", 150)
    relays = Relays()
    relay = await relays.start()
    await relays.caught_up()
    copied, may_go_on = relay._bus.store, asyncio.Event()

    async def store(*words):
        await may_go_on.wait()
        return await copied(*words)

    relay._bus.store = store
    await fill(relays.rig, 400)
    relay.heard(relays.rig.log.events)
    await asyncio.sleep(POLL_S)
    assert len(relays.told()) == 200  # whole windows
    may_go_on.set()
    await relays.caught_up()
    assert len(relays.told()) == 400


@virtual
async def test_two_relays_at_once_copy_everything_once():
    relays = Relays()
    one, two = await relays.start("one"), await relays.start("two")
    for _ in range(10):
        await fill(relays.rig, 30)
        for relay in (one, two):
            relay.heard(relays.rig.log.events[-30:])
        await asyncio.sleep(0.02)
    copy = await relays.caught_up()
    assert [(n, e.position) for n, e in copy.items()] == [(n, n) for n in range(1, 301)]
    assert len(relays.told()) == 300


@virtual
async def test_a_wiped_bus_is_filled_again_unasked():
    relays = Relays()
    await fill(relays.rig, 5)
    await relays.start()
    await relays.caught_up()
    relays.rig.broker.wipe()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    copy = await relays.caught_up()
    assert list(copy.values()) == relays.rig.log.events
    assert loop.time() - began_s < 2 * POLL_S
    assert {"LOG", "EVENTS", "DEADLETTER"} <= set(relays.rig.broker.streams)


@virtual
async def test_the_copy_of_a_log_that_is_no_more_is_replaced():
    relays = Relays()
    await fill(relays.rig, 5)
    await relays.start()
    await relays.caught_up()
    relays.running[0].cancel()
    relays.rig.lose_the_log()
    await fill(relays.rig, 3)
    await relays.start("next")
    await until(lambda: list(relays.copy()) == [1, 2, 3])
    assert list(relays.copy().values()) == relays.rig.log.events


def begun(lineage, how="new"):
    return LogBegan(lineage=lineage, epoch=1, how=how)


@virtual
async def test_the_copy_of_an_earlier_line_of_history_is_replaced_also_when_it_is_shorter():
    relays = Relays()
    await relays.rig.append(begun("one"), eligible(1), eligible(2))
    await relays.start()
    await relays.caught_up()
    assert relays.rig.broker.streams["LOG"].spec.lineage == "one"
    relays.running[0].cancel()
    relays.rig.lose_the_log()
    await relays.rig.append(begun("one"), begun("two", "restored"), *map(eligible, range(5)))
    await relays.start("next")
    await relays.caught_up()
    assert list(relays.copy().values()) == relays.rig.log.events
    assert relays.rig.broker.streams["LOG"].spec.lineage == "two"


@virtual
@pytest.mark.parametrize("how", ["new", "forked"])
async def test_another_platforms_copy_is_left_alone(how, caplog):
    relays = Relays()
    await relays.rig.append(begun("one"), eligible(1))
    await relays.start()
    theirs = await relays.caught_up()
    relays.running[0].cancel()
    if how == "new":
        relays.rig.lose_the_log()
    await relays.rig.append(begun("two", how), eligible(2))
    await relays.start("next")
    await until(lambda: "the log of another platform (lineage one)" in caplog.text)
    assert relays.copy() == theirs


@virtual
async def test_a_relay_that_was_cut_off_goes_on_where_it_was():
    relays = Relays()
    relay = await relays.start()
    await fill(relays.rig, 5)
    relays.rig.broker.disconnect("relay")
    relay.heard(relays.rig.log.events)
    await asyncio.sleep(2)
    relays.rig.fails.add("relay head.before")
    relays.rig.broker.connect("relay")
    assert list(await relays.caught_up()) == [1, 2, 3, 4, 5]


@virtual
async def test_a_project_sees_the_public_fields_and_nothing_else():
    relays = Relays()
    admitted = JobAdmitted(
        job="j", project="ads", name="n", user="ada", gang=Gang(cpu_milli=77), requested_at=7,
        priority=5,
    )  # fmt: skip
    await relays.rig.append(admitted)
    await relays.start()
    await relays.caught_up()
    (message,) = relays.told()
    assert message.subject == "headrace.event.ads.job.admitted.v1"
    assert msgspec.json.decode(message.data) == {
        "job": "j", "project": "ads", "name": "n", "user": "ada", "warning": "",
        "key": "", "reason": "", "type": "job.admitted.v1", "position": 1,
    }  # fmt: skip
    headers = message.headers
    assert (headers["ce-id"], headers["ce-type"]) == ("1", "headrace.job.admitted.v1")
    assert (headers["ce-subject"], headers["ce-specversion"]) == ("j", "1.0")
    assert headers["ce-time"] == "2023-11-14T22:13:20+00:00"
    assert "ce-correlationid" not in headers


@virtual
async def test_an_answer_carries_the_key_of_its_request():
    relays = Relays()
    await relays.rig.leading()
    await relays.start()
    await relays.rig.ask("j", key="my-key")
    await relays.caught_up()
    keys = {m.subject.split(".")[4]: m.headers.get("ce-correlationid") for m in relays.told()}
    assert keys["cancelling"] == "my-key"


@virtual
async def test_what_is_of_no_project_or_not_public_is_told_to_nobody():
    relays = Relays()
    await relays.rig.leading()  # appends service.led
    await relays.rig.append(GuardTripped(device="g", job="j", attempt=1))
    await relays.rig.append(eligible(1))
    await relays.start()
    await relays.caught_up()
    assert {m.subject for m in relays.told()} == {"headrace.event.ads.job.eligible.v1"}


@virtual
async def test_another_projects_events_are_never_on_a_projects_subjects():
    relays = Relays()
    await relays.rig.leading()
    await relays.start()
    heard = {"ads": [], "vision": []}

    async def hear(message):
        heard[message.subject.split(".")[2]].append(msgspec.json.decode(message.data)["project"])

    await relays.rig.bus.subscribe("headrace.event.*.>", hear)
    for project in ("ads", "vision", "ads"):
        headers = {"ce-id": f"k-{len(relays.rig.log.events)}", "ce-source": "test"}
        headers["ce-type"] = "headrace.job.cancel.v1"
        headers["ce-specversion"] = "1.0"
        subject = f"headrace.request.{project}.etl.job.cancel"
        await relays.rig.bus.request(subject, b'{"job":"j"}', headers)
    await relays.caught_up()
    assert set(heard["ads"]) == {"ads"}
    assert set(heard["vision"]) == {"vision"}
