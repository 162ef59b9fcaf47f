"""The gateway's own numbers, and who is shown them."""

from tests.gateway.test_api import raw

from headrace.runtime.health import MetricsToken


async def test_numbers_need_the_token_of_the_metrics(world):
    assert (await world.call(raw, world, "GET", "/metrics"))[0] == 401
    world.gateway.metrics_token = MetricsToken(b"of-the-metrics")
    for token, status in (("", 401), ("other", 401), ("of-the-metrics", 200)):
        got, body = await world.call(raw, world, "GET", "/metrics", token=token)
        assert (got, b"headrace_gateway_jobs" in body) == (status, status == 200)
