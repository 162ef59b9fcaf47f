"""The OpenAPI document, and what becomes of whatever it allows and forbids to send."""

import asyncio
import json
import os
import urllib.request
from http import HTTPStatus

import hypothesis
import msgspec
import pytest
import schemathesis
from tests.gateway.histories import RUN, joined
from tests.gateway.world import TOKEN

from headrace.gateway import openapi

EXAMPLES = int(os.environ.get("HEADRACE_FUZZ_EXAMPLES", "5"))  # per operation
FUZZ_S_MAX = 60 * EXAMPLES
ENDLESS = ("/v1/jobs/{job}/logs",)  # follows a job that never ends when it is asked to
SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def operations():
    schema = schemathesis.openapi.from_dict(openapi.document())
    found = [result.ok() for result in schema.get_all_operations()]
    return [each for each in found if each.path not in ENDLESS]


async def test_it_is_served_as_it_is_kept(world):
    def read():
        with urllib.request.urlopen(f"{world.url}/schema/openapi.json", timeout=60) as answer:
            return answer.read()

    served = json.loads(await world.call(read))
    assert served["openapi"] == "3.1.0"
    assert served == msgspec.json.decode(openapi.encoded())
    assert "/v1/jobs" in served["paths"]
    assert served["paths"]["/v1/jobs"]["post"]["requestBody"]["required"]


async def test_every_operation_says_what_it_is_for_and_how_it_fails():
    for path, methods in openapi.document()["paths"].items():
        for method, operation in methods.items():
            assert operation.get("summary"), f"{method} {path}"
            assert "default" in operation["responses"], f"{method} {path}"


@pytest.mark.timeout(FUZZ_S_MAX + 20)
async def test_nothing_that_can_be_sent_makes_the_gateway_fail(world, monkeypatch):
    async def owner(message):
        refusal = {"field": "request", "value": "", "rule": "is of no use", "instead": ""}
        answer = {"accepted": False, "position": 0, "message": "refused", "refusal": refusal}
        if message.reply:
            await world.bus.publish(message.reply, msgspec.json.encode(answer))

    await world.bus.subscribe("headrace.gateway.>", owner)
    await world.append(joined(), *RUN)
    await world.gateway.follower.reached(len(world.log.events))
    monkeypatch.setattr("headrace.gateway.follower.OWN_WRITE_S_MAX", 0.05)  # for what never comes
    found = operations()
    assert len(found) > 30
    await asyncio.wait_for(asyncio.to_thread(fuzz, world.url, found), FUZZ_S_MAX)


def fuzz(url, found):
    for operation in found:

        @hypothesis.given(case=operation.as_strategy())
        @SETTINGS
        def send(case):
            headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
            answer = case.call(base_url=url, headers=headers, timeout=60)
            said = answer.text[:300]
            assert answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR, f"{case}: {said}"
            assert "Traceback" not in said

        send()
