import asyncio
import base64
import http.client
import json
from itertools import chain, repeat
from urllib.parse import urlsplit

import pytest
from tests.gateway.histories import (
    RUN,
    SECOND_US,
    SUCCEEDED,
    admitted,
    evicted,
    finished,
    joined,
    placed,
    released,
    requested,
    started,
)
from tests.gateway.world import TIMEOUT_S

from headrace import vault
from headrace.client import ClientError, NotFound, Refused
from headrace.events import Refusal
from headrace.events.jobs import JobRefused
from headrace.events.platform import ServiceLed

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


def raw(world, method, path, body=None, headers={}, *, token="a-token-for-tests"):
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
    given = {"Authorization": f"Bearer {token}", **headers}
    connection.request(method, path, body, given)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response.status, answer


async def test_jobs_are_listed_as_the_log_has_them(world):
    await world.append(joined(), *RUN)
    await world.gateway.follower.reached(7)
    page = await world.call(world.client().jobs)
    assert [(row.job, row.state, row.where) for row in page.jobs] == [
        ("hello-a", "running", ["n1"])
    ]


async def test_events_that_the_bus_lost_are_read_from_the_log(world):
    await world.append(*RUN, told=False)
    await world.append(evicted())
    await world.gateway.follower.reached(7)
    page = await world.call(world.client().jobs)
    assert page.jobs[0].state == "stopping"


async def test_a_submitted_job_is_listed_as_soon_as_it_is_accepted(world):
    def accept(message):
        return {"accepted": True, "position": 2, "job": "hello-a", "warning": "cannot run today"}

    await world.answer("job.submit", accept)
    await world.append(requested())

    async def admit_later():
        await world.append(admitted())

    client = world.client()
    submitting = world.call(client.submit, {"name": "hello", "project": "vision"}, key="k1")
    answer, _ = await asyncio.gather(submitting, admit_later())
    assert (answer.job, answer.warning, answer.key) == ("hello-a", "cannot run today", "k1")
    assert (await world.call(client.jobs)).jobs[0].state == "waiting"


async def test_the_owner_is_asked_with_the_key_the_actor_and_the_body_as_it_came(world):
    await world.answer("job.submit", lambda _: {"accepted": True, "position": 0, "job": "x-1"})
    body = '{"name":"hello",  "project":"vision"}'
    await world.call(raw, world, "POST", "/v1/jobs", body, {"Idempotency-Key": "k1"})
    message = world.asked[0]
    assert message.subject == "headrace.gateway.vision.job.submit"
    assert message.data.decode() == body
    assert message.headers["ce-id"] == "k1"
    assert message.headers["ce-type"] == "headrace.job.submit.v1"
    assert message.headers["Headrace-Actor"] == "admin"
    assert message.headers["traceparent"].count("-") == 3


async def test_a_request_is_repeated_under_its_key_until_it_is_answered(world, monkeypatch):
    answered = {"accepted": True, "position": 0, "job": "x-1"}
    replies = chain([None, None], repeat(answered))  # it may come too late once more

    monkeypatch.setattr("headrace.gateway.asking.REPLY_S_MAX", 0.05)
    await world.answer("job.submit", lambda _: next(replies))
    answer = await world.call(world.client().submit, {"name": "hello"}, key="k9")
    assert answer.job == "x-1"
    keys = [message.headers["ce-id"] for message in world.asked]
    assert keys == ["k9"] * max(3, len(keys))


async def test_what_a_dead_leader_was_asked_is_asked_again_as_soon_as_another_leads(world):
    heard, others = asyncio.Event(), asyncio.Event()

    def answer(_):
        heard.set()
        return {"accepted": True, "position": 0, "job": "x-1"} if others.is_set() else None

    await world.answer("job.submit", answer)
    asked = world.call(world.client().submit, {"name": "hello"}, key="k9")
    async with asyncio.timeout(TIMEOUT_S / 4):  # before the client asks again by itself
        asking = asyncio.create_task(asked)
        await heard.wait()
        others.set()
        await world.append(ServiceLed(service="admission", epoch=2, decision_version="v"))
        assert (await asking).job == "x-1"
    assert [message.headers["ce-id"] for message in world.asked] == ["k9", "k9"]


async def test_a_request_that_nobody_answers_ends_with_the_key_to_repeat_it(world, monkeypatch):
    monkeypatch.setattr("headrace.gateway.asking.ANSWER_S_MAX", 0.3)
    status, body = await world.call(
        raw, world, "POST", "/v1/jobs", b"{}", {"Idempotency-Key": "k1"}
    )
    assert status == 504
    assert json.loads(body)["key"] == "k1"


async def test_a_refusal_comes_with_its_parts_and_its_line(world):
    def refuse(_):
        refusal = {"field": "nodes", "value": "4", "rule": "too many", "instead": "nodes: 2"}
        return {"accepted": False, "position": 0, "refusal": refusal, "message": "refused: nodes"}

    await world.answer("job.submit", refuse)
    with pytest.raises(Refused, match="refused: nodes") as refused:
        await world.call(world.client().submit, {"name": "x"})
    assert refused.value.answer.refusal["instead"] == "nodes: 2"
    assert (await world.call(raw, world, "POST", "/v1/jobs", b"{}"))[0] == 422


async def test_a_key_that_was_used_for_another_request_is_a_conflict(world):
    def conflict(_):
        refusal = {"field": "idempotency key k1", "rule": "was used at position 3"}
        return {"accepted": False, "position": 0, "refusal": refusal, "message": "refused: key"}

    await world.answer("job.submit", conflict)
    assert (await world.call(raw, world, "POST", "/v1/jobs", b"{}"))[0] == 409


@pytest.mark.parametrize(
    ("sent", "status", "line"),
    [
        (("POST", "/v1/jobs", b"not json"), 400, "not a job file in JSON"),
        (("POST", "/v1/jobs", b"[1, 2]"), 400, "not a job file in JSON"),
        (("POST", "/v1/jobs", b"\xff\xfe"), 400, "not a job file in JSON"),
        (("POST", "/v1/jobs", b'{"project": "a.b"}'), 400, "project"),
        (("POST", "/v1/jobs", b'{"project": "*"}'), 400, "project"),
        (("POST", "/v1/jobs", b'"' + b"x" * 1_000_001 + b'"'), 413, "at most"),
        (("GET", "/v1/jobs/nobody-x", None), 404, "no job nobody-x"),
        (("GET", "/v1/jobs?limit=0", None), 400, "limit"),
        (("GET", "/v1/jobs?limit=many", None), 400, "limit"),
        (("GET", "/v1/nodes/n9", None), 404, "no node n9"),
        (("GET", "/v1/nothing", None), 404, "not offered"),
        (("PATCH", "/v1/jobs", None), 405, "not offered"),
        (("PUT", "/v1/documents", b"[]"), 400, "JSON object"),
        (("PUT", "/v1/secrets/vision/KEY", b""), 400, "1 to 65000 bytes"),
        (("POST", "/v1/nodes/n1", b'{"chnge": "cordon"}'), 400, "chnge"),
        (("GET", "/v1/jobs/hello-a/logs?offsets=x", None), 400, "offsets"),
    ],
)
async def test_bad_input_gets_one_clear_line(world, sent, status, line):
    await world.append(*RUN)
    await world.gateway.follower.reached(6)
    got, answer = await world.call(raw, world, *sent)
    message = json.loads(answer)["message"]
    assert got == status
    assert line in message
    assert "\n" not in message
    assert "Traceback" not in message


async def test_without_the_token_nothing_is_shown(world):
    with pytest.raises(ClientError, match="token is not valid"):
        await world.call(world.client("wrong").jobs)
    status, body = await world.call(raw, world, "GET", "/v1/jobs", token="")
    assert status == 401
    assert b"hello" not in body


async def test_health_needs_no_token(world):
    for path in ("/livez", "/readyz", "/schema/openapi.json"):
        status, _ = await world.call(raw, world, "GET", path, token="")
        assert status == 200


async def test_openapi_names_every_route(world):
    _, body = await world.call(raw, world, "GET", "/schema/openapi.json")
    paths = json.loads(body)["paths"]
    assert "/v1/jobs" in paths
    assert "/v1/projects/{project}/data" in paths


async def test_a_prefix_finds_its_job_unless_it_could_be_several(world):
    await world.append(requested("hello-a"), requested("hello-b"), requested("other-c"))
    await world.gateway.follower.reached(3)
    client = world.client()
    assert (await world.call(client.job, "oth")).job.job == "other-c"
    with pytest.raises(ClientError, match="hell could be hello-a, hello-b"):
        await world.call(client.job, "hell")
    with pytest.raises(NotFound):
        await world.call(client.job, "zzz")


async def test_a_name_means_its_live_job_then_the_newest_and_refused_ones_nothing(world):
    no = Refusal(field="secrets", value="X", rule="project vision has no secret of this name")
    await world.append(
        *(requested("etl-9"), admitted("etl-9"), finished("etl-9")),
        *(requested("etl-1"), admitted("etl-1"), finished("etl-1")),
        *(requested("etl-all-5"), admitted("etl-all-5")),
        *(requested("etl-2"), JobRefused(job="etl-2", project="vision", refusal=no)),
        *(requested("lr-x", kind_of_group="sweep", trials=({}, {})), admitted("lr-x", tasks=2)),
        *(admitted(f"lr-x/{index}", group="lr-x", index=index) for index in range(2)),
    )
    await world.gateway.follower.reached(len(world.log.events))
    client = world.client()
    assert (await world.call(client.job, "etl")).job.job == "etl-1"
    assert (await world.call(client.job, "etl-2")).job.state == "refused"
    await world.append(requested("etl-3"), admitted("etl-3"), requested("etl-0"), admitted("etl-0"))
    await world.gateway.follower.reached(len(world.log.events))
    assert (await world.call(client.job, "etl")).job.job == "etl-0"
    page = await world.call(lambda: client.jobs(group="lr"))
    assert [row.job for row in page.jobs] == ["lr-x/0", "lr-x/1"]
    await world.append(requested("etl-7", project="ads"), admitted("etl-7", project="ads"))
    await world.gateway.follower.reached(len(world.log.events))
    with pytest.raises(ClientError, match="etl could be etl-7 of ads, etl-0 of vision"):
        await world.call(client.cancel, "etl")


async def test_a_description_tells_of_every_attempt_and_decision(world):
    await world.append(joined())
    await world.append(*RUN, evicted(), released(again=True), placed(attempt=2), traceparent=TRACE)
    await world.append(started(attempt=2))
    await world.gateway.follower.reached(len(world.log.events))
    found = await world.call(world.client().job, "hello-a")
    assert [attempt.attempt for attempt in found.attempts] == [1, 2]
    first = found.attempts[0]
    assert (first.rule, first.numbers) == ("binpack", {"score": 7})
    assert (first.evicted, first.gainer, first.eviction_rule) == (
        "reclaimed",
        "big-b",
        "reclaim-over-quota",
    )
    assert first.workers[0].gpus == [0]
    assert first.held_us == 4 * SECOND_US
    assert found.trace == "a" * 32
    assert found.spec["gang"] == {"accelerators": [{"milli": 500}]}
    assert [event.type for event in found.timeline][:2] == ["job.requested.v1", "job.admitted.v1"]


async def test_what_a_job_runs_is_shown_to_nobody(world):
    await world.append(requested())
    await world.gateway.follower.reached(1)
    _, body = await world.call(raw, world, "GET", "/v1/jobs/hello-a")
    assert b"launch" not in body
    _, body = await world.call(raw, world, "GET", "/v1/events")
    assert b"launch" not in body


async def test_a_job_that_ended_long_ago_is_described_from_the_log(world):
    await world.append(*SUCCEEDED)
    await world.gateway.follower.reached(len(SUCCEEDED))
    world.gateway.projection.ended.clear()
    found = await world.call(world.client().job, "hello-a")
    assert (found.job.state, found.job.exit_code) == ("succeeded", 0)


async def test_a_trial_is_described_with_its_parameters(world):
    await world.append(
        requested("lr-x", kind_of_group="sweep", trials=({"lr": "1"}, {"lr": "2"})),
        admitted("lr-x", tasks=2),
        admitted("lr-x/1", group="lr-x", index=1),
    )
    await world.gateway.follower.reached(3)
    client = world.client()
    trial = await world.call(client.job, "lr-x/1")
    assert (trial.job.job, trial.params) == ("lr-x/1", {"lr": "2"})
    assert [task.job for task in (await world.call(client.job, "lr-x")).tasks] == ["lr-x/1"]


async def test_a_job_is_cancelled_by_its_prefix_in_its_own_project(world):
    await world.append(*RUN)
    await world.gateway.follower.reached(6)
    await world.answer("job.cancel", lambda _: {"accepted": True, "position": 0})
    answer = await world.call(world.client().cancel, "hel")
    assert answer.job == "hello-a"
    assert world.asked[0].subject == "headrace.gateway.vision.job.cancel"
    assert json.loads(world.asked[0].data) == {"job": "hello-a"}


async def test_a_secret_leaves_the_gateway_sealed(world):
    await world.answer("secret.set", lambda _: {"accepted": True, "position": 0, "version": "v1"})
    await world.call(world.client().set_secret, "WANDB_API_KEY", b"hunter2")
    message = world.asked[0]
    assert b"hunter2" not in message.data
    sealed = base64.b64decode(json.loads(message.data)["sealed"])
    assert vault.open_with(world.vault_key, sealed, b"secret:vision/WANDB_API_KEY") == b"hunter2"


async def test_fleet_requests_go_to_their_owners(world):
    for verb in ("node.change", "queue.apply", "publisher.create", "project.erase"):
        await world.answer(verb, lambda _: {"accepted": True, "position": 0, "jwt": "j"})
    client = world.client()
    await world.call(client.change_node, "n1", "cordon")
    await world.call(client.apply, {"type": "project", "name": "ads"})
    await world.call(client.create_publisher, "etl", "UABC", "sig", at_s=7)
    await world.call(client.erase, "vision")
    assert [(m.subject, json.loads(m.data)) for m in world.asked] == [
        ("headrace.gateway.fleet.node.change", {"node": "n1", "change": "cordon"}),
        ("headrace.gateway.fleet.queue.apply", {"type": "project", "name": "ads"}),
        (
            "headrace.gateway.vision.publisher.create",
            {"name": "etl", "public_key": "UABC", "at_s": 7, "signature": "sig", "durable": False},
        ),
        ("headrace.gateway.vision.project.erase", {}),
    ]


async def test_status_counts_what_lives(world):
    await world.append(joined(), *RUN)
    await world.gateway.follower.reached(7)
    status = await world.call(world.client().status)
    assert (status.jobs, status.nodes, status.gpus, status.held_milli) == (
        {"running": 1},
        1,
        2,
        500,
    )


async def test_a_refused_job_is_listed_with_its_reason(world):
    refusal = Refusal(field="nodes", rule="too many")
    await world.append(requested(), JobRefused(job="hello-a", project="vision", refusal=refusal))
    await world.gateway.follower.reached(2)
    page = await world.call(world.client().jobs, state="refused")
    assert page.jobs[0].why == "nodes — too many"
