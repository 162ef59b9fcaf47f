"""People at the gateway's door: whose streams are closed, what is on record, who acts for whom."""

from __future__ import annotations

import asyncio
import http.client
import json
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.gateway.histories import RUN, admitted, joined, requested, worker_exited
from tests.gateway.people import configured, person, secret_of, token, tree
from tests.gateway.test_sessions import VISIT
from tests.gateway.world import TIMEOUT_S, later, until

from headrace.bus import subjects
from headrace.bus.memory import MemoryBus
from headrace.bus.sessions import Entered
from headrace.client import ClientError, NotFound
from headrace.events import Refusal
from headrace.events.jobs import JobFinished, JobRefused
from headrace.events.people import ApiTokenRevoked, Grant, RoleRevoked, UserRemoved
from headrace.gateway import denials


async def in_log(world, *events):
    await world.gateway.follower.reached(await world.append(*events))


def spoken(world, user, method="GET", path="/v1/jobs", body=None, **headers):
    """The status and the answer, as a thread gets them."""
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
    given = {"Authorization": f"Bearer {secret_of(user)}", **headers}
    connection.request(method, path, body, given)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


REVOCATIONS = {
    "its token": ApiTokenRevoked(token="id-ada"),
    "its role": RoleRevoked(member="user:ada", grant=Grant(role="researcher", scope="vision")),
    "the user": UserRemoved(user="ada"),
}


@pytest.mark.parametrize("what", REVOCATIONS)
async def test_an_open_stream_of_events_ends_when_what_opened_it_is_revoked(world, what):
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")), *RUN)
    url = "/v1/events?project=vision"
    following = asyncio.to_thread(spoken, world, "ada", path=url, Accept="text/event-stream")
    reading = asyncio.create_task(following)
    await until(lambda: world.gateway.follower._changed._waiters)  # for the next event
    await in_log(world, REVOCATIONS[what], requested("later-b"))
    status, said = await asyncio.wait_for(reading, TIMEOUT_S)
    assert status == 200
    assert b"hello-a" in said
    assert b"later-b" not in said


@pytest.mark.parametrize("what", REVOCATIONS)
async def test_a_stream_of_all_events_ends_too_when_no_role_is_left(world, what):
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")), *RUN)
    following = asyncio.to_thread(
        spoken, world, "ada", path="/v1/events", Accept="text/event-stream"
    )
    reading = asyncio.create_task(following)
    await until(lambda: world.gateway.follower._changed._waiters)
    await in_log(world, REVOCATIONS[what], requested("later-b"))
    status, said = await asyncio.wait_for(reading, TIMEOUT_S)
    assert (status, b"hello-a" in said, b"later-b" in said) == (200, True, False)


async def test_a_stream_of_all_events_shows_nothing_more_of_a_project_whose_role_went(world):
    roles = (("researcher", "vision"), ("viewer", "zeta"))
    await in_log(world, *tree(), *person("ada", *roles), *RUN)
    following = asyncio.to_thread(
        spoken, world, "ada", path="/v1/events", Accept="text/event-stream"
    )
    reading = asyncio.create_task(following)
    await until(lambda: world.gateway.follower._changed._waiters)
    await in_log(world, REVOCATIONS["its role"], requested("later-b"), requested("zeta-c", "zeta"))
    await until(lambda: world.gateway.follower._changed._waiters)
    await in_log(world, REVOCATIONS["its token"])
    _, said = await asyncio.wait_for(reading, TIMEOUT_S)
    assert (b"zeta-c" in said, b"later-b" in said) == (True, False)


async def test_output_that_is_followed_ends_when_the_token_is_revoked(world):
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")), *RUN)
    asked = asyncio.Event()

    async def silent(_message):
        asked.set()

    await MemoryBus(world.broker, "agent").subscribe(subjects.agent_down("n1", "logs"), silent)
    path = "/v1/jobs/hello-a/logs?follow=true"
    reading = asyncio.create_task(asyncio.to_thread(spoken, world, "ada", path=path))
    await asyncio.wait_for(asked.wait(), TIMEOUT_S)
    await in_log(world, REVOCATIONS["its token"])
    status, said = await asyncio.wait_for(reading, TIMEOUT_S)
    assert (status, b"null" in said) == (200, False)


async def test_who_is_inside_a_job_is_shown_out_when_the_token_is_revoked(world):
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")), *RUN)
    bus = MemoryBus(world.broker, "agent-n1")

    async def let_in(message):
        await bus.publish(message.reply, msgspec.json.encode(Entered()))

    await bus.subscribe(subjects.agent_down("n1", "session"), let_in)
    session = await world.call(world.client(secret_of("ada")).enter, "hello-a", VISIT)
    await in_log(world, REVOCATIONS["its token"])
    with pytest.raises(ClientError):
        await asyncio.wait_for(asyncio.to_thread(session.receive), TIMEOUT_S)


async def test_a_token_that_expires_is_good_until_then(world):
    await in_log(world, *tree(), *person("ada", ("viewer", "vision")))
    now_us = world.gateway.follower.now_us()
    await in_log(world, token("ada", name="short", expires_at_us=now_us + 3_600_000_000))
    assert (await asyncio.to_thread(spoken, world, "short"))[0] == 200
    world.gateway.follower._clock.not_below(now_us + 3_600_000_001)
    status, said = await asyncio.to_thread(spoken, world, "short")
    assert (status, b"has expired" in said) == (401, True)


async def test_refusals_of_one_subject_are_one_event_until_a_minute_is_over(world, monkeypatch):
    await in_log(world, *tree(), *person("ada", ("viewer", "vision")))
    for _ in range(5):
        await asyncio.to_thread(spoken, world, "ada", "POST", body=b'{"project":"vision"}')
        await asyncio.to_thread(spoken, world, "nobody")
    await until(lambda: len(world.reported) == 2)
    later(monkeypatch, denials.REPEAT_S)
    await until(lambda: len(world.reported) > 3)
    told = [json.loads(message.data) for message in world.reported]
    assert [t["count"] for t in told] == [1, 1, 4, 4]
    assert {(t["user"], t["what"], t["scope"]) for t in told} == {
        ("ada", "job.submit", ""),
        ("", "the token is not valid here", ""),
    }


async def test_reading_anothers_output_is_on_record_once_an_hour_and_ones_own_is_not(world):
    roles = (("researcher", "vision"),)
    await in_log(
        world, *tree(), *person("ada", *roles), *person("bob", *roles), requested("hello-a")
    )
    for user in ("ada", "bob", "bob"):
        await asyncio.to_thread(spoken, world, user, path="/v1/jobs/hello-a/logs")
        await asyncio.to_thread(spoken, world, user, path="/v1/jobs/hello-a/outputs")
    told = [(m.headers["Headrace-Actor"], m.subject, json.loads(m.data)) for m in world.reported]
    assert told == [
        ("bob", "headrace.gateway.vision.access.read", {"job": "hello-a", "what": what})
        for what in ("logs", "outputs")
    ]


async def test_files_that_anothers_job_left_are_read_on_record(world):
    roles = (("researcher", "vision"),)
    tree_ = "b" * 64
    left = msgspec.structs.replace(worker_exited(), outputs=tree_)
    users = [*person("ada", *roles), *person("bob", *roles)]
    await in_log(world, *tree(), *users, *RUN, left)
    for user in ("ada", "bob"):
        await world.call(spoken, world, user, path=f"/v1/jobs/hello-a/outputs/{'c' * 64}")
        await world.call(spoken, world, user, path=f"/v1/jobs/hello-a/outputs/{tree_}")
    told = [(m.headers["Headrace-Actor"], json.loads(m.data)["what"]) for m in world.reported]
    assert told == [("bob", "outputs")]


async def test_a_narrowed_or_expiring_token_makes_none_that_is_more(world):
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")))
    later_us = world.gateway.follower.now_us() + 3_600_000_000
    narrowed = token("ada", name="narrow", scopes=("token.create",))
    await in_log(world, narrowed, token("ada", name="short", expires_at_us=later_us))
    await world.answer("token.create", lambda _: {"accepted": True, "position": 0})
    client = world.client(secret_of("narrow"))
    with pytest.raises(ClientError, match="narrowed makes no others"):
        await world.call(client.create_token)
    short = world.client(secret_of("short"))
    for lasts_s in (0, 4_000):
        with pytest.raises(ClientError, match="none that lasts longer"):
            await world.call(short.create_token, lasts_s=lasts_s)
    assert (await world.call(short.create_token, lasts_s=60)).text.startswith("hra_")
    with pytest.raises(ClientError, match=r"access = token\.create"):
        await world.call(world.client(secret_of("ada")).create_token, user="bob")
    with pytest.raises(NotFound):
        await world.call(world.client(secret_of("ada")).revoke_token, "id-of-nobody")


async def test_a_department_admin_gives_projects_and_roles_of_the_department_only(world):
    await in_log(world, *tree(), *person("dee", ("department-admin", "research")))
    await world.answer("queue.apply", lambda _: {"accepted": True, "position": 0})
    dee = world.client(secret_of("dee"))
    project = {"type": "project", "name": "new", "department": "research"}
    await world.call(dee.apply, {**project, "members": [{"user": "bob", "role": "project-admin"}]})
    for refused in (
        {**project, "department": "labs"},
        {**project, "name": "zeta"},
        {"type": "project", "name": "new"},
        {"type": "department", "name": "research"},
        {"type": "pool", "name": "train"},
        {**project, "members": [{"user": "bob", "role": "admin"}]},
    ):
        with pytest.raises(ClientError, match=r"refused: (access|role)"):
            await world.call(dee.apply, refused)


async def test_who_holds_a_gpu_of_another_project_is_another_project(world):
    await in_log(world, *tree(), *person("zoe", ("researcher", "zeta")), joined(), *RUN)
    zoe = world.client(secret_of("zoe"))
    (node,) = await world.call(zoe.nodes)
    assert (node.jobs, node.devices[0].held) == ([], {"another project": 500})
    (own,) = await world.call(world.client().nodes)
    assert own.devices[0].held == {"hello-a": 500}
    assert await world.call(lambda: list(zoe.events())) == []


@pytest.mark.parametrize("guess", ["hello-a", "hello-b", "vision", "vision-b"])
async def test_what_a_refused_job_named_is_shown_as_it_was_whether_it_exists_or_not(world, guess):
    refusal = Refusal(field="after[0].job", value=guess, rule="is no job", instead=f"not {guess}")
    refused = (
        requested("mine-a", "zeta"),
        JobRefused(job="mine-a", project="zeta", refusal=refusal),
    )
    await in_log(world, *tree(), *person("zoe", ("researcher", "zeta")), *RUN, *refused)
    zoe = world.client(secret_of("zoe"))
    (row,) = (await world.call(zoe.jobs)).jobs
    assert row.why == f"after[0].job = {guess} — is no job; not {guess}"
    *_, event = await world.call(lambda: list(zoe.events()))
    assert (event.data["refusal"]["value"], event.data["refusal"]["instead"]) == (
        guess,
        f"not {guess}",
    )


@pytest.mark.parametrize("word", ["hello-a", "hello-x", "vision", "vision-x"])
async def test_a_jobs_own_words_are_shown_whether_they_name_something_or_not(world, word):
    mine = "mine-a"
    asked = msgspec.structs.replace(requested(mine, "zeta"), name=word, user=word)
    said = f"killed: ls says {word}"
    failed = JobFinished(
        job=mine, project="zeta", outcome="failed", reason="setup", message=said, exit_code=1
    )
    await in_log(world, *tree(), *person("zoe", ("researcher", "zeta")), *RUN, asked, failed)
    zoe = world.client(secret_of("zoe"))
    (row,) = (await world.call(zoe.jobs)).jobs
    assert row.why == f"setup: {said}"
    first, last = await world.call(lambda: list(zoe.events()))
    assert (first.data["name"], last.data["message"]) == (word, said)


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"project": "vision", "name": "\x00"}',
        b'{"project": "../../etc"}',
        b'{"project": {"a": 1}}',
    ],
)
async def test_bodies_that_are_no_job_file_get_one_line(world, sent):
    await in_log(world, *tree(), *person("ada", ("researcher", "vision")), configured("labs"))
    await world.answer("job.submit", lambda _: {"accepted": False, "message": "refused: name"})
    status, said = await asyncio.to_thread(spoken, world, "ada", "POST", body=sent)
    message = json.loads(said)["message"]
    assert status in (400, 403, 422)
    assert message
    assert "\n" not in message


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer " + "x" * 17_000,
                                   "Bearer a.b.c", "Bearer \xff\xfe", "bearer hrj_12345678_x"])  # fmt: skip
async def test_what_is_no_token_of_ours_lets_nobody_in(world, given):
    status, said = await asyncio.to_thread(spoken, world, "", Authorization=given)
    assert status == 401
    assert "token" in json.loads(said)["message"]


async def test_a_token_that_may_submit_follows_its_own_job_to_its_end_and_no_other(world):
    roles = (("researcher", "vision"),)
    await in_log(world, *tree(), *person("ada", *roles), *person("bob", *roles))
    await in_log(world, token("ada", name="ci", scopes=("job.submit",)), *RUN)
    of_bob = msgspec.structs.replace(requested("other-b"), user="bob")
    await in_log(world, of_bob, msgspec.structs.replace(admitted("other-b"), user="bob"))
    client = world.client(secret_of("ci"))
    assert (await world.call(client.job, "hello-a")).job.job == "hello-a"
    path = "/v1/events?job={}"
    status, said = await world.call(spoken, world, "ci", path=path.format("hello-a"))
    assert status == 200
    assert {event["job"] for event in json.loads(said)["events"]} == {"hello-a"}
    for name in ("other-b",):
        with pytest.raises(ClientError):
            await world.call(client.job, name)
        assert (await world.call(spoken, world, "ci", path=path.format(name)))[0] in (403, 404)
    assert (await world.call(client.jobs)).jobs == []
    with pytest.raises(ClientError, match=r"good for job\.submit"):
        await world.call(client.cancel, "hello-a")
