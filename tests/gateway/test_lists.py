"""Pages, orders, filters and fields of lists, and from when on they show what is there."""

import asyncio
import http.client
import itertools
import json
from urllib.parse import urlsplit

import pytest
from tests.gateway.histories import admitted, finished, joined, requested
from tests.gateway.people import configured, person
from tests.gateway.test_api import raw
from tests.gateway.world import TOKEN

from headrace.client import ClientError
from headrace.client.connection import Connection
from headrace.events.access import ProjectErased, PublisherCreated, SecretSet
from headrace.events.members import TokenCreated
from headrace.events.pools import Pool, PoolConfigured
from headrace.events.templates import Template, TemplateConfigured
from headrace.events.volumes import Volume, VolumeConfigured
from headrace.events.webhooks import Webhook, WebhookConfigured


async def ask(world, path, **headers):
    status, body = await world.call(raw, world, "GET", path, None, headers)
    return status, json.loads(body)


async def pages(world, path):
    """Every page from that one on, as `Link` leads to them."""

    def turn():
        connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
        found, here = [], path
        while here:
            connection.request("GET", here, headers={"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            found.append(json.loads(answer.read()))
            assert int(answer.headers["Headrace-Position"]) == len(world.log.events)
            here = answer.headers.get("Link", "").partition(">")[0].removeprefix("<")
        return found

    return await asyncio.to_thread(turn)


async def filled(world, count=5):
    for number in range(count):
        job, project = f"j-{number}", ("ads", "vision")[number % 2]
        await world.append(requested(job, project), admitted(job, project))
    await world.append(finished("j-0", "ads"))
    await world.gateway.follower.reached(len(world.log.events))


@pytest.mark.parametrize("sort", ["project", "-project", "state", "-position", "ended"])
async def test_pages_of_any_order_have_each_job_once(world, sort):
    await filled(world)
    found, cursor = [], ""
    while True:
        page = await world.call(world.client().jobs, sort=sort, limit=2, cursor=cursor)
        found += page.jobs
        cursor = page.next
        if not cursor:
            break
    everything = (await world.call(world.client().jobs, sort=sort)).jobs
    assert [row.job for row in found] == [row.job for row in everything]
    assert {row.job for row in found} == {f"j-{number}" for number in range(5)}
    if sort.endswith("project"):
        projects = [row.project for row in found]
        assert projects == sorted(projects, reverse=sort.startswith("-"))


async def test_a_cursor_stays_where_it_is_when_jobs_come_and_go(world):
    await filled(world)
    client = world.client()
    first = await world.call(client.jobs, sort="project", limit=2)
    assert [row.job for row in first.jobs] == ["j-0", "j-2"]
    await world.append(requested("ads-new", "ads"), finished("j-2", "ads"))
    await world.gateway.follower.reached(len(world.log.events))
    second = await world.call(client.jobs, sort="project", limit=9, cursor=first.next)
    assert [row.job for row in second.jobs] == ["j-4", "ads-new", "j-1", "j-3"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/v1/jobs?sort=colour", "sort = colour is no order; instead: position, project"),
        ("/v1/jobs?sort=name&cursor=%00", "cursor = \\x00 is no cursor of a list"),
        ("/v1/jobs?sort=name&cursor=WzEsIDJd", "is no cursor of a list"),
        ("/v1/jobs?sort=name&cursor=WyJ1c2VyIiwgImFkYSIsIDJd", "is the cursor of another order"),
        ("/v1/jobs?cursor=WyJ1c2VyIiwgImFkYSIsIDJd", "goes on with a list in an order"),
        ("/v1/jobs?sort=name&before=5", "before = 5 goes on with a list without sort"),
        ("/v1/jobs?limit=0", "limit = 0 Expected `int` >= 1"),
        ("/v1/jobs?limit=1&limit=2", "limit = 1 is there more than once"),
        ("/v1/jobs?projcet=vision", "projcet =  unknown field; instead: did you mean project?"),
        ("/v1/status?colour=red", "colour =  unknown field; instead: this takes no query"),
        ("/v1/jobs/j-0/why?limit=3", "limit =  unknown field"),
        ("/v1/jobs/j-0?colour=red", "colour =  unknown field"),
        ("/v1/jobs?fields=job,stat", "fields = stat is no field of a row; instead: state"),
        ("/v1/nodes?fields=", None),
        ("/v1/nodes?sort=nod", "sort = nod is no field of a row; instead: node"),
        ("/v1/nodes?sort=labels", "sort = labels has many values: it is no order"),
        ("/v1/users?cursor=W10=x", "cursor = W10=x is no cursor of this list in this order"),
        ("/v1/nodes?sort=gpus&cursor=WyJuMCJd", "is no cursor of this list in this order"),
        ("/v1/jobs?state=runing", "state = runing is no state; instead: did you mean running?"),
        (
            "/v1/nodes?state=gone",
            "state = gone is no state; instead: states: ready, silent, waiting",
        ),
        ("/v1/jobs?at=17", "at = 17 is not yet supported: what is shown is as of now"),
        ("/v1/projects?at=", "at = "),
    ],
)
async def test_what_a_list_cannot_do_is_said_in_one_line(world, path, line):
    await filled(world)
    await inhabited(world)
    status, answer = await ask(world, path)
    if line is None:
        assert status == 200
        return
    assert status == 400
    assert "\n" not in answer["message"]
    told = answer["refusal"]
    told = (
        f"{told['field']} = {told.get('value', '')} {told['rule']}; instead: {told.get('instead')}"
    )
    assert line.encode().decode("unicode_escape") in told


async def test_rows_have_only_the_fields_that_are_wanted(world):
    await filled(world)
    await world.append(joined())
    await world.gateway.follower.reached(len(world.log.events))
    _, page = await ask(world, "/v1/jobs?fields=job,state,exit_code&limit=1")
    assert page["jobs"] == [{"job": "j-4", "state": "waiting", "exit_code": None}]
    assert page["more"]
    assert await ask(world, "/v1/nodes?fields=node,gpus") == (200, [{"node": "n1", "gpus": 2}])
    assert await ask(world, "/v1/projects?fields=project") == (
        200,
        [{"project": "ads"}, {"project": "vision"}],
    )


async def test_nodes_come_in_pages_and_by_their_state(world):
    await world.append(*(joined(f"n{number}") for number in range(5)))
    await world.gateway.follower.reached(5)
    assert await pages(world, "/v1/nodes?limit=2&fields=node") == [
        [{"node": "n0"}, {"node": "n1"}],
        [{"node": "n2"}, {"node": "n3"}],
        [{"node": "n4"}],
    ]
    assert await ask(world, "/v1/nodes?state=silent") == (200, [])
    assert [row.node for row in await world.call(world.client().nodes)] == [
        f"n{number}" for number in range(5)
    ]


async def test_a_read_waits_for_the_position_that_it_names(world):
    client = world.client()
    client.after_position = 2
    reading = asyncio.create_task(world.call(client.jobs))
    await world.append(requested("j-0"), admitted("j-0"))
    page = await reading
    assert page.position >= 2
    assert page.jobs[0].state == "waiting"


async def test_a_read_of_what_is_not_there_yet_says_so(world, monkeypatch):
    monkeypatch.setattr("headrace.gateway.follower.OWN_WRITE_S_MAX", 0.01)
    status, answer = await ask(world, "/v1/jobs", **{"Headrace-After-Position": "99"})
    assert status == 400
    rule = "is beyond the log, which ends at 0"
    assert answer["message"] == f"refused: Headrace-After-Position = 99 — {rule}"
    assert (await ask(world, "/v1/jobs", **{"Headrace-After-Position": "-1"}))[0] == 400


async def test_a_client_sees_its_own_changes(world):
    await world.append(requested("j-0"), admitted("j-0"))

    await world.answer("job.submit", lambda _: {"accepted": True, "position": 2, "job": "j-0"})
    client = world.client()
    await world.call(client.submit, {"name": "j"})
    assert client.after_position == 2
    with pytest.raises(ClientError):
        await world.call(client.job, "nobody")


LISTS = {
    "/v1/nodes": "node",
    "/v1/projects": "project",
    "/v1/pools": "name",
    "/v1/volumes": "name",
    "/v1/templates": "name",
    "/v1/secrets": "name",
    "/v1/publishers": "name",
    "/v1/webhooks": "name",
    "/v1/users": "user",
    "/v1/roles": "member",
    "/v1/tokens": "token",
    "/v1/join-tokens": "token",
}


async def test_every_list_has_each_row_once_in_pages_of_any_order(world):
    await inhabited(world)
    for (path, name), down in itertools.product(LISTS.items(), ("", "-", None)):
        sort = "" if down is None else f"{down}{name}"
        (whole,) = await pages(world, f"{path}?sort={sort}")
        by_page = await pages(world, f"{path}?sort={sort}&limit=1")
        assert [len(page) for page in by_page] == [1, 1, 1], path
        assert [row for page in by_page for row in page] == whole, path
        if sort:
            names = [row[name] for row in whole]
            assert names == sorted(names, reverse=down == "-"), path


async def test_the_client_reads_every_page_of_a_list(world):
    await inhabited(world)
    connection = Connection(world.url, TOKEN)
    found = await world.call(lambda: list(connection.pages("/v1/nodes?limit=1&fields=node")))
    assert [json.loads(page) for page in found] == [[{"node": f"n{n}"}] for n in range(3)]


async def test_a_secret_is_listed_and_its_value_is_nowhere(world):
    await inhabited(world)
    _, found = await ask(world, "/v1/secrets?project=p1")
    (row,) = found
    assert row == {"name": "KEY", "project": "p1", "version": "v1", "set_at_us": row["set_at_us"]}
    await world.append(ProjectErased(project="p1"))
    await world.gateway.follower.reached(len(world.log.events))
    assert await ask(world, "/v1/secrets?project=p1") == (200, [])


async def inhabited(world):
    """Three of everything."""
    for number in range(3):
        name, label = f"p{number}", {"label": "pool", "value": f"p{number}"}
        await world.append(
            joined(f"n{number}"),
            configured(name),
            PoolConfigured(name=name, pool=Pool(pool=name, **label), change="created"),
            VolumeConfigured(name=name, volume=Volume(volume=name, path="/mnt"), change="created"),
            TemplateConfigured(name=name, template=Template(name=name, job="{}"), change="created"),
            SecretSet(project=name, name="KEY", version=f"v{number}"),
            PublisherCreated(project=name, name="etl", public_key="U1"),
            WebhookConfigured(
                project=name,
                name="hook",
                webhook=Webhook(url="https://h/", types=("job.",)),
                secret=b"s",
                secret_key="k",
                change="created",
            ),
            *person(f"someone{number}", ("viewer", name)),
            TokenCreated(token=f"j{number}", digest="d" * 64, uses=1, expires_at_us=9),
        )
    await world.gateway.follower.reached(len(world.log.events))


async def test_the_cursor_of_another_list_or_order_is_refused(world):
    await filled(world)
    await inhabited(world)
    pages_of = {}
    for path in ("/v1/users?limit=1", "/v1/users?limit=1&sort=kind", "/v1/roles?limit=1"):
        link = await world.call(link_of, world, path)
        pages_of[path] = link.partition("&cursor=")[2].partition(">")[0]
        assert pages_of[path], path
    for path, other in itertools.permutations(pages_of, 2):
        status, answer = await ask(world, f"{path}&cursor={pages_of[other]}")
        assert status == 400
        assert answer["refusal"]["field"] == "cursor"


def link_of(world, path):
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.headers.get("Link", "")
