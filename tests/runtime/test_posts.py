"""The door that keeps a message until it is answered by an event."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from headrace.bus import subjects
from headrace.bus.interface import BusError
from headrace.bus.memory import MemoryBus
from headrace.events.jobs import (
    JobCancelling,
    JobCancelRequested,
)
from headrace.runtime.posts import POSTS_BYTES_MAX, bytes_max, spec_of, stream_of
from headrace.runtime.relay import TOLD_APART_S, Relay
from headrace.store.interface import EVENT_BYTES_MAX

from .rig import Rig, until, virtual


class Posting(Rig):
    """Posts, and hears what its project is told with which correlation id."""

    def __init__(self):
        super().__init__()
        self.heard = []

    async def open(self):
        async def hear(message):
            kind = message.subject.removeprefix("headrace.event.ads.")
            self.heard.append((kind, message.headers.get("ce-correlationid")))

        await self.bus.subscribe("headrace.event.ads.>", hear)
        await self.start_relay()

    async def start_relay(self):
        relay = Relay(self.new_store("relay"), MemoryBus(self.broker, "relay"))
        self.running["relay"] = asyncio.create_task(relay.run())

    async def let_post(self, *projects):
        """Tell the relay, as admission does, until the streams are these."""
        wanted = {stream_of(project) for project in projects}
        while {name for name in self.broker.streams if name.startswith("REQUESTS-")} != wanted:
            await self.bus.publish(subjects.POSTING, msgspec.json.encode(projects))
            await asyncio.sleep(0.1)

    async def post(self, key, body=b'{"job":"j"}', verb="job.cancel"):
        headers = {"ce-id": key, "ce-source": "test", "ce-type": f"headrace.{verb}.v1"}
        headers["ce-specversion"] = "1.0"
        await self.bus.store(f"headrace.post.ads.etl.{verb}", body, headers)

    async def answered(self, kind, key):
        await until(lambda: (kind, key) in self.heard)


@virtual
async def test_what_was_posted_is_answered_by_an_event_with_its_key():
    rig = Posting()
    await rig.leading()
    await rig.open()
    await rig.post("k")
    await rig.answered("job.cancelling.v1", "k")
    assert len(rig.events(JobCancelRequested)) == 1


@virtual
async def test_what_was_posted_while_nobody_led_waits():
    rig = Posting()
    await rig.open()
    await rig.bus.ensure_stream(spec_of("ads", bytes_max()))
    for number in range(3):
        await rig.post(f"k{number}")
    await rig.leading()
    for number in range(3):
        await rig.answered("job.cancelling.v1", f"k{number}")
    assert len(rig.events(JobCancelling)) == 3


@virtual
async def test_what_was_posted_again_later_is_answered_again_and_happens_once():
    rig = Posting()
    await rig.leading()
    await rig.open()
    await rig.post("k")
    await rig.answered("job.cancelling.v1", "k")
    await rig.post("k")
    await rig.answered("job.post_answered.v1", "k")
    await rig.post("k", b'{"job":"other"}')
    await rig.answered("job.post_refused.v1", "k")
    assert len(rig.events(JobCancelRequested)) == 1


@virtual
async def test_what_was_posted_and_cannot_be_understood_is_refused_and_blocks_nobody():
    rig = Posting()
    await rig.leading()
    await rig.open()
    await rig.post("bad", b"\xff")
    await rig.post("", b'{"job":"j"}')
    await rig.post("good")
    await rig.answered("job.post_refused.v1", "bad")
    await rig.answered("job.cancelling.v1", "good")
    kept = [m.data for m in rig.broker.streams["DEADLETTER"].messages.values()]
    assert kept == [b"\xff", b'{"job":"j"}']


@virtual
async def test_what_is_in_work_when_its_leader_dies_is_done_once_by_the_next():
    rig = Posting()
    await rig.leading("a")
    await rig.start("b")
    await rig.open()
    rig.fails.add("a append.after")  # committed, and nobody heard so
    await rig.post("k")
    await until(lambda: not rig.fails)
    await rig.kill("a")
    await until(lambda: len(rig.events(JobCancelling)) == 1)
    await rig.post("next", msgspec.json.encode({"job": "n"}))
    await rig.answered("job.cancelling.v1", "next")
    assert len(rig.events(JobCancelRequested)) == 2


@pytest.mark.security
@virtual
async def test_a_projects_posts_fill_its_own_share_and_no_others():
    rig = Posting()
    await rig.open()
    await rig.let_post("ads", "quiet")
    body = b'{"job":"%s"}' % (b"x" * 250_000)
    fitting = POSTS_BYTES_MAX // (len(body) + 1_000)
    for number in range(fitting):
        await rig.post(f"k{number}", body)
    with pytest.raises(BusError, match="full"):
        await asyncio.gather(*(rig.post(f"more-{number}", body) for number in range(10)))
    headers = {"ce-id": "mine", "ce-source": "test", "ce-type": "headrace.job.cancel.v1"}
    headers["ce-specversion"] = "1.0"
    await rig.bus.store("headrace.post.quiet.etl.job.cancel", b'{"job":"q"}', headers)
    await rig.leading()
    await until(lambda: any(e.project == "quiet" for e in rig.events(JobCancelRequested)))
    asked_in = [event.project for event in rig.events(JobCancelRequested)]
    assert asked_in.index("quiet") < fitting / 2  # it did not wait for what the other one posted
    await until(lambda: not rig.broker.streams[stream_of("ads")].messages)
    await rig.post("k-again", b'{"job":"j"}')  # what was answered has made room


@pytest.mark.security
@virtual
async def test_a_project_whose_posts_have_no_room_is_told_so_once_a_minute_with_the_limits_name(
    monkeypatch,
):
    monkeypatch.setenv("HEADRACE_POSTS_PROJECT_BYTES_MAX", str(2 * EVENT_BYTES_MAX))
    rig = Posting()
    await rig.open()
    await rig.let_post("ads", "quiet")
    told = []

    async def hear(message):
        told.append((message.subject, msgspec.json.decode(message.data)))

    await rig.bus.subscribe("headrace.event.*.job.post_refused.v1", hear)
    body = b"x" * 250_000
    for number in range(2):
        await rig.post(f"k{number}", body)
    await asyncio.sleep(TOLD_APART_S * 1.5)
    ((subject, answer),) = told[:1]
    assert len(told) == 2
    assert subject == "headrace.event.ads.job.post_refused.v1"
    assert answer["message"] == (
        "refused: post — 2 posts of project ads wait, with 500000 bytes of 524288 "
        "(HEADRACE_POSTS_PROJECT_BYTES_MAX, set for this service); what has no room is not kept; "
        "post again, with the same ce-source and ce-id, what got no receipt"
    )


@pytest.mark.security
@virtual
async def test_the_stream_of_a_project_that_has_no_publisher_any_more_goes():
    rig = Posting()
    await rig.open()
    await rig.let_post("ads", "quiet")
    await rig.let_post("quiet")
