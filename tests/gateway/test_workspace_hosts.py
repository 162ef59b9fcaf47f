"""What keeps workspaces apart from each other, and the gateway from all of them."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.gateway.workspace import ask, entered, workspace
from tests.gateway.world import TOKEN

from headrace.trust.workspace_places import Places


async def test_pages_of_other_places_link_to_a_workspace_and_ask_it_for_nothing_else(world):
    async with workspace(world) as asked_for:
        cookie = await entered(world)
        for site, mode, goes_to, body, status in (
            ("cross-site", "navigate", "document", None, 200),
            ("same-site", "navigate", "document", None, 200),
            ("same-origin", "cors", "empty", b"x", 200),
            ("none", "navigate", "document", None, 200),
            ("same-site", "cors", "empty", None, 403),
            ("same-site", "no-cors", "script", None, 403),
            ("cross-site", "navigate", "iframe", None, 403),
            ("cross-site", "navigate", "document", b"x", 403),
        ):
            fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": goes_to}
            said, _, _ = await world.call(ask, world.url, "/", cookie, body, fetched)
            assert said == status, fetched
        assert len(asked_for) == 4
        evil = {"Origin": "https://evil.example"}  # of a browser that says no more
        said, _, _ = await world.call(ask, world.url, "/", cookie, b"x", evil)
        assert said == 403


async def test_the_gateway_is_not_found_at_a_workspaces_host_nor_a_workspace_at_the_gateways(world):
    async with workspace(world):
        cookie = await entered(world)
        status, _, body = await world.call(ask, world.url, "/v1/jobs", cookie)
        assert (status, msgspec.json.decode(body)["line"]) == (200, "GET /v1/jobs HTTP/1.1")
        gateways = urlsplit(world.url).hostname
        status, _, _ = await world.call(partial(ask, world.url, "/tree", cookie, host=gateways))
        assert status == 404


async def test_a_workspace_without_a_host_name_of_its_own_is_not_opened(world):
    async with workspace(world) as asked_for:
        token = {"Authorization": f"Bearer {TOKEN}"}
        opening = partial(ask, world.url, "/v1/jobs/hello/opening", body=b"{}", headers=token)
        status, _, body = await world.call(partial(opening, host="10.1.2.3"))
        assert (status, b"headrace port-forward hello-a 8888" in body) == (400, True)
        world.gateway.places = Places("work.example.com")
        status, _, body = await world.call(partial(opening, host="10.1.2.3"))
        assert msgspec.json.decode(body)["host"] == "hello-a.work.example.com"
        path = msgspec.json.decode(body)["path"]
        entering = partial(ask, world.url, path, host="hello-a.work.example.com")
        assert (await world.call(entering))[0] == 303
        assert asked_for == []


@pytest.mark.parametrize("domain", ["-", "a..b", "exa mple", "a." * 120 + "b", "*.example"])
def test_what_is_no_domain_is_refused(domain):
    with pytest.raises(ValueError, match="is no domain"):
        Places(domain)


@pytest.mark.parametrize(
    ("host", "job"),
    [
        ("a-b.localhost:7400", "a-b"), ("A-b.LOCALHOST", "a-b"), ("a-b.work.example.com", "a-b"),
        ("localhost:7400", None), ("127.0.0.1", None), ("[::1]:7400", None), ("", None),
        ("work.example.com", None), ("a-b.work.example.com.evil", None), ("localhost.evil", None),
    ],
)  # fmt: skip
def test_the_host_says_which_workspace_is_meant(host, job):
    assert Places("work.example.com").job_at(host) == job
