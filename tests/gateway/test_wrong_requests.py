"""What is said, in body and head, of requests that are wrong."""

import http.client
import json
from urllib.parse import urlsplit

import pytest
from tests.gateway.histories import RUN, requested
from tests.gateway.test_api import raw
from tests.gateway.world import TOKEN

from headrace.gateway.errors import GatewayError


def answered(world, method, path, token=TOKEN, **headers):
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
    connection.request(method, path, headers={"Authorization": f"Bearer {token}", **headers})
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


async def test_what_goes_wrong_says_in_its_head_what_may_be_done(world, monkeypatch):
    status, headers, _ = await world.call(answered, world, "PATCH", "/v1/jobs")
    assert (status, set(headers["Allow"].split(", "))) == (405, {"GET", "POST", "OPTIONS"})
    for path, offered in (("/v1/jobs", "GET, POST"), ("/v1/jobs/j-0", "DELETE, GET")):
        status, headers, _ = await world.call(answered, world, "OPTIONS", path)
        assert (status, headers["Allow"]) == (405, offered)
    for method in ("GET", "POST"):  # of the framework, and around it
        status, headers, _ = await world.call(answered, world, method, "/v1/jobs", "hra_wrong")
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    monkeypatch.setattr("headrace.gateway.follower.OWN_WRITE_S_MAX", 0.0)
    monkeypatch.setattr(world.gateway.follower.projection, "position", -1)
    late = {"Headrace-After-Position": "0"}
    status, headers, _ = await world.call(answered, world, "GET", "/v1/jobs", **late)
    assert (status, headers["Retry-After"]) == (503, "1")
    _, _, said = await world.call(answered, world, "GET", "/nothing")
    schema = json.loads(said)["message"].partition("(see ")[2].rstrip(")")
    assert (await world.call(answered, world, "GET", schema))[0] == 200


@pytest.mark.parametrize(
    ("body", "field", "rule", "instead"),
    [
        ("", "body", "a JSON object is needed", None),
        ("{", "body", "is not JSON: Input data was truncated", None),
        ("[]", "body", "Expected `object`, got `array`", None),
        ('{"member": 3}', "member", "Expected `str`, got `int`", None),
        ('{"membr": "x", "role": "viewer"}', "membr", "unknown field", "did you mean member?"),
    ],
)
async def test_a_body_that_is_not_what_is_needed_is_refused_by_field(
    world, body, field, rule, instead
):
    given = {"Content-Type": "application/json"}
    status, said = await world.call(raw, world, "POST", "/v1/roles", body.encode(), given)
    told = json.loads(said)["refusal"]
    assert status == 400
    assert (told["field"], told["rule"], told.get("instead")) == (field, rule, instead)


async def test_a_node_is_told_nothing_of_jobs_of_other_projects(world):
    await world.append(*RUN, requested("topsecret-a", "ads"), requested("topsecret-b", "ads"))
    await world.gateway.follower.reached(len(world.log.events))
    for name in ("topsecret-a", "topsecret", "nothing"):
        with pytest.raises(GatewayError) as error:
            await world.gateway.outputs_of("vision", name)
        assert str(error.value) == f"no job {name} is known in project vision"
