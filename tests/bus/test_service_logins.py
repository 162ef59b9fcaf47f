"""What each service may say and hear, as the server enforces it."""

from __future__ import annotations

import pytest
from tests.bus.test_credentials import server, service, user  # noqa: F401

from headrace.bus.service_logins import service_permissions

SAYS = [
    ("admission", "headrace.log.job.admitted.v1"),
    ("admission", "headrace.log.service.led.v1"),
    ("metrics", "headrace.relay.log.job.admitted.v1"),
    ("metrics", "headrace.event.ads.job.finished.v1"),
    ("metrics", "$JS.API.STREAM.INFO.LOG"),
    ("admission", "$JS.API.CONSUMER.MSG.NEXT.REQUESTS-ads.inbox"),
    ("quota", "headrace.log.queue.configured.v1"),
    ("admission", "$JS.ACK.REQUESTS-ads.inbox.1.2.3.4.5"),
    ("admission", "headrace.relay.posting"),
    ("placement", "headrace.agent.n1.down.desired"),
    ("placement", "headrace.deadletter.headrace.request.ads.node.x"),
    ("gateway", "headrace.gateway.ads.job.submit"),
    ("gateway", "headrace.agent.n1.down.logs"),
]
NEVER_SAYS = [
    ("admission", "headrace.relay.log.job.admitted.v1"),
    ("admission", "$JS.API.STREAM.DELETE.LOG"),
    ("admission", "headrace.log.gang.placed.v1"),
    ("admission", "headrace.gateway.ads.job.submit"),
    ("admission", "headrace.agent.n1.down.desired"),
    ("quota", "headrace.gateway.fleet.role.grant"),
    ("quota", "$JS.ACK.REQUESTS-ads.inbox.1.2.3.4.5"),
    ("quota", "headrace.relay.posting"),
    ("quota", "headrace.event.ads.job.finished.v1"),
    ("quota", "$JS.API.STREAM.DELETE.LOG"),
    ("placement", "headrace.log.role.granted.v1"),
    ("placement", "headrace.gateway.fleet.token.create"),
    ("metrics", "headrace.log.job.finished.v1"),
    ("metrics", "headrace.agent.n1.down.desired"),
    ("gateway", "headrace.log.job.admitted.v1"),
    ("gateway", "headrace.agent.n1.down.desired"),
    ("gateway", "headrace.request.ads.etl.job.submit"),
    ("gateway", "$JS.API.STREAM.INFO.LOG"),
    ("gateway", "$SYS.REQ.SERVER.PING"),
]
HEARS = [
    ("admission", "headrace.gateway.*.token.*"),
    ("admission", "headrace.request.*.*.job.*"),
    ("quota", "headrace.gateway.*.queue.*"),
    ("placement", "headrace.agent.*.up.hello"),
    ("placement", "headrace.query.placement.why"),
    ("metrics", "headrace.agent.*.up.signal"),
    ("gateway", "headrace.log.>"),
    ("gateway", "_SERVICES.gateway.>"),
]
NEVER_HEARS = [
    ("quota", "headrace.gateway.*.token.*"),
    ("quota", "_SERVICES.admission.>"),
    ("placement", "headrace.agent.*.up.*"),
    ("placement", "headrace.agent.*.up.>"),
    ("placement", "headrace.request.*.*.job.*"),
    ("placement", "headrace.gateway.*.access.*"),
    ("metrics", "headrace.agent.*.up.*"),
    ("metrics", ">"),
    ("gateway", "headrace.gateway.>"),
    ("gateway", "_SERVICES.>"),
]


@pytest.mark.parametrize(("name", "subject"), SAYS)
async def test_a_service_says_what_is_its_own(user, name, subject):  # noqa: F811
    assert await (await user(name, service_permissions(name))).says(subject)


@pytest.mark.parametrize(("name", "subject"), NEVER_SAYS)
async def test_a_service_says_nothing_else(user, name, subject):  # noqa: F811
    assert not await (await user(name, service_permissions(name))).says(subject)


@pytest.mark.parametrize(("name", "subject"), HEARS)
async def test_a_service_hears_what_it_needs(user, name, subject):  # noqa: F811
    assert await (await user(name, service_permissions(name))).hears(subject)


@pytest.mark.parametrize(("name", "subject"), NEVER_HEARS)
async def test_a_service_hears_nothing_else(user, name, subject):  # noqa: F811
    assert not await (await user(name, service_permissions(name))).hears(subject)
