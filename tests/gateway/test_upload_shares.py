"""What one project uploads costs it its own share of the gateway's memory, disk and time."""

import http.client
import json
import os
from urllib.parse import urlsplit

import pytest
from tests.gateway.histories import project_made
from tests.gateway.test_api import raw
from tests.gateway.world import until

from headrace.bundles.frames import framed
from headrace.bundles.manifest import name_of
from headrace.gateway.limiting import UPLOADS_PER_PROJECT_MAX
from headrace.runtime.limits import Limit

PROJECTS = "/v1/projects/vision"

pytestmark = [pytest.mark.security, pytest.mark.usefixtures("projects")]


@pytest.fixture
async def projects(world):
    for name in ("vision", "ads"):
        await world.append(project_made(name))
    await world.gateway.follower.reached(2)


def contents_of(*sizes):
    """A body with contents of these sizes, which no folder names."""
    made = [os.urandom(size) for size in sizes]
    return b"".join(framed(name_of(data), data) for data in made)


async def brought(world, body, project="vision"):
    """The status and the answer's refusal."""
    path = f"/v1/projects/{project}/objects"
    status, answer = await world.call(raw, world, "POST", path, body)
    return status, json.loads(answer).get("refusal", {})


async def test_contents_that_no_folder_names_count_and_take_nothing_from_others(world):
    world.gateway.keeper._most = Limit("MOST", 3_000_000, is_set=False)
    for _ in range(2):
        assert (await brought(world, contents_of(1_200_000)))[0] == 200
    status, refusal = await brought(world, contents_of(1_200_000))
    assert (status, refusal["field"]) == (507, "files")
    assert refusal["rule"] == "project vision may keep at most 3 MB of files (MOST, the default)"
    assert (await brought(world, contents_of(1_200_000), "ads"))[0] == 200


async def test_a_project_keeps_no_more_than_is_still_free_so_that_others_find_room(world):
    disk = 10_000_000
    keeper, root = world.gateway.keeper, world.gateway.keeper._root
    keeper._reserve = Limit("RESERVE", 1_000_000, is_set=False)
    keeper._free_bytes = lambda _root: (
        disk - sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    )
    said = [(await brought(world, contents_of(1_200_000)))[0] for _ in range(7)]
    taken = said.count(200)
    assert taken == 3  # about half of the 7 for which the disk has room
    assert (await brought(world, contents_of(1_200_000), "ads"))[0] == 200


async def test_an_upload_that_breaks_off_leaves_nothing_and_gives_its_place_back(world):
    def broken_off():
        connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
        connection.putrequest("POST", f"{PROJECTS}/objects")
        connection.putheader("Authorization", "Bearer a-token-for-tests")
        connection.putheader("Content-Length", "3000040")
        connection.endheaders()
        connection.send(contents_of(3_000_000)[:1_500_000])
        return connection

    incoming = world.gateway.keeper._root / "vision" / "incoming"
    connection = await world.call(broken_off)
    await until(lambda: incoming.is_dir() and any(incoming.iterdir()))
    connection.close()
    await until(lambda: not any(incoming.iterdir()))
    await until(lambda: not world.gateway.uploads._taken)


async def test_one_project_has_so_many_uploads_at_a_time_and_another_one_its_own(world):
    def begun():
        connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
        connection.putrequest("POST", f"{PROJECTS}/objects")
        connection.putheader("Authorization", "Bearer a-token-for-tests")
        connection.putheader("Content-Length", "100")
        connection.endheaders()
        return connection

    open_ = [await world.call(begun) for _ in range(UPLOADS_PER_PROJECT_MAX)]
    await until(lambda: world.gateway.uploads._taken["vision"] == UPLOADS_PER_PROJECT_MAX)
    status, refusal = await brought(world, contents_of(10))
    assert (status, refusal["field"]) == (429, "uploads")
    assert "HEADRACE_UPLOADS_PER_PROJECT_MAX, the default" in refusal["rule"]
    assert (await brought(world, contents_of(10), "ads"))[0] == 200
    for each in open_:
        each.close()
    await until(lambda: not world.gateway.uploads._taken)
    assert (await brought(world, contents_of(10)))[0] == 200
