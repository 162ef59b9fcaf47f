"""Every route, for every role in every scope: what the table denies the door denies.

Rule: the routes are read from the application. One that is new fails here until it says what one
must be allowed to do, and until a request to it stands in `REQUESTS`.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
from urllib.parse import urlsplit

import msgspec
import pytest
from litestar.routes import HTTPRoute, WebSocketRoute
from tests.gateway.every_request import (
    JOB,
    OPEN,
    OTHERS_JOB,
    REQUESTS,
    SESSIONS,
    SIGNED_IN,
)
from tests.gateway.histories import joined, requested
from tests.gateway.people import SCOPES, TREE, person, secret_of, tree

from headrace.access.allowed import Subject, allowed, allowed_to_give
from headrace.access.table import MAY, ROLES
from headrace.client import Client, ClientError
from headrace.client.session_model import Visit
from headrace.events import Refusal
from headrace.events.people import Account, Grant, UserSet
from headrace.events.templates import Template, TemplateConfigured
from headrace.gateway.app import api


def routes():
    """Each route of `/v1` with its method and its options."""
    for route in api().routes:
        path = route.path_format.replace("{job}", "{job:str}")
        for name, kind in (
            ("node", "str"), ("home", "str"), ("token", "str"), ("project", "str"), ("name", "str"),
            ("user", "str"), ("tree", "str"), ("kind", "str"), ("index", "int"),
        ):  # fmt: skip
            path = path.replace(f"{{{name}}}", f"{{{name}:{kind}}}")
        if not path.startswith("/v1"):
            continue
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                for method in sorted(handler.http_methods - {"OPTIONS", "HEAD"}):
                    yield method, path, handler.opt
        elif isinstance(route, WebSocketRoute):
            yield "SOCKET", path, route.route_handler.opt


class Door:
    """One connection to the gateway, kept open."""

    def __init__(self, url):
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def ask(self, method, path, body, user):
        data = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {secret_of(user)}", "Content-Type": "application/json"}
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        return response.status, response.read()


async def peopled(world):
    """Everybody there could be, and services that say yes to whatever gets to them."""

    async def accept(message):
        world.asked.append(message)
        await world.bus.publish(message.reply, b'{"accepted":true}')

    for noun in ("job", "node", "queue", "pool", "secret", "publisher", "project", "user", "role", "webhook",
                 "token", "template", "scheduling", "volume"):  # fmt: skip
        await world.bus.subscribe(f"headrace.gateway.*.{noun}.*", accept)
    for verb in ("create-token", "revoke-token", "approve"):
        await world.bus.subscribe(f"headrace.gateway.*.access.{verb}", accept)

    async def not_known(message):
        await world.bus.publish(message.reply, b"null")

    await world.bus.subscribe("headrace.query.placement.why", not_known)
    events = [
        *tree(), joined(), UserSet(user="service:vision/etl", account=Account(), change="created"), *person("bob"),
        requested(JOB), requested(f"{JOB}/0"), requested(OTHERS_JOB, project="zeta"),
    ]  # fmt: skip
    for role, scope in itertools.product(ROLES, SCOPES):
        events += person(f"{role}-{scope or 'fleet'}", (role, scope))
    position = await world.append(*events)
    await world.gateway.follower.reached(position)


def expected(opt, method, path, subject):
    """Whether the table allows it."""
    permission = opt["may"]
    where = REQUESTS[method, path][2]
    if where is None:  # what is listed is filtered: anybody with such a role may ask
        return any(grant.role in MAY[permission.noun, permission.verb] for grant in subject.grants)
    if path == "/v1/roles":
        grant = Grant(role="viewer", scope="vision")
        return not isinstance(allowed_to_give(subject, grant, where), Refusal)
    owner = "bob" if permission.noun == "token" else "ada"
    judged = allowed(subject, permission.verb, permission.noun, where, owner)
    return not isinstance(judged, Refusal)


async def test_every_route_says_what_one_must_be_allowed_to_do(world):
    found = list(routes())
    said = {(method, path) for method, path, opt in found if "may" in opt}
    assert said == {*REQUESTS, *(("SOCKET", path) for path in SESSIONS)}
    assert {(m, p) for m, p, opt in found if opt.get("signed_in")} == SIGNED_IN
    assert {(m, p) for m, p, opt in found if opt.get("open")} == OPEN
    assert len(found) == len(said) + len(SIGNED_IN) + len(OPEN)
    for _, _, opt in found:
        if "may" in opt:
            assert (opt["may"].noun, opt["may"].verb) in MAY


async def test_what_the_table_denies_the_door_denies_and_nothing_else(world):
    await peopled(world)
    wrong = []

    def try_all():
        door = Door(world.url)
        for method, path, opt in routes():
            if "may" not in opt or method == "SOCKET":
                continue
            target, body, _ = REQUESTS[method, path]
            for role, scope in itertools.product(ROLES, SCOPES):
                user = f"{role}-{scope or 'fleet'}"
                subject = Subject(name=user, grants=(Grant(role=role, scope=scope),))
                status, answer = door.ask(method, target, body, user)
                is_hidden = b"no job " in answer or b"no token " in answer
                is_in = status not in (401, 403) and not is_hidden
                if status >= 500 or is_in is not expected(opt, method, path, subject):
                    wrong.append((method, path, user, status, answer[:120]))

    await asyncio.wait_for(asyncio.to_thread(try_all), 60)
    assert wrong == []


@pytest.mark.parametrize("user", ["viewer-vision", "researcher-zeta", "publisher-vision"])
async def test_who_may_not_enter_a_job_is_not_let_into_a_session(world, user):
    await peopled(world)
    client = Client(world.url, secret_of(user), "vision")
    visit = Visit(way="exec", command=("sh",))
    with pytest.raises(ClientError, match=r"job.enter|no job|HTTP 403|403"):
        await world.call(client.enter, JOB, visit)


async def test_no_read_shows_anything_of_another_project(world):
    await peopled(world)
    hidden = ("zeta", "omega", "researcher-zeta")
    shown = []

    def read_all():
        door = Door(world.url)
        for method, path, opt in routes():
            if method != "GET" or "may" not in opt:
                continue
            for user in ("researcher-vision", "project-admin-vision", "department-admin-research"):
                target, body, _ = REQUESTS[method, path]
                for query in (target, target.partition("?")[0]):
                    status, answer = door.ask(method, query, body, user)
                    text = answer.decode()
                    if path == "/v1/users":  # names of people are no project's
                        continue
                    shown.extend((path, user, word) for word in hidden if word in text)
                    assert status in (200, 403, 404), (path, user, answer)

    await asyncio.wait_for(asyncio.to_thread(read_all), 60)
    assert shown == []
    assert TREE["zeta"] == "labs"


async def test_what_one_may_not_see_does_not_exist(world):
    await peopled(world)
    door = Door(world.url)

    def both():
        hidden = door.ask("GET", f"/v1/jobs/{OTHERS_JOB}", None, "researcher-vision")
        none = door.ask("GET", "/v1/jobs/omega-9999", None, "researcher-vision")
        prefix = door.ask("GET", "/v1/jobs/o", None, "researcher-vision")
        return hidden, none, prefix

    hidden, none, prefix = await asyncio.to_thread(both)
    assert hidden[0] == none[0] == prefix[0] == 404
    said = [msgspec.json.decode(answer)["message"] for _, answer in (hidden, none)]
    assert said[0].replace(OTHERS_JOB, "X") == said[1].replace("omega-9999", "X")


async def test_only_who_has_the_fleet_points_a_webhook_inside(world):
    await peopled(world)
    document = {"type": "webhook", "name": "n", "project": "vision", "url": "http://10.0.0.1/"}

    def put(user, **more):
        door = Door(world.url)
        return door.ask("PUT", "/v1/documents", {**document, **more}, user)[0]

    got = [
        await asyncio.to_thread(put, user, private=private)
        for user, private in itertools.product(["admin-fleet", "admin-vision"], [False, True])
    ]
    assert got == [200, 200, 200, 403]


async def test_who_may_apply_a_document_may_delete_it_and_nobody_else(world):
    await peopled(world)
    names = {
        "department": "research", "project": "vision", "pool": "train", "volume": "data",
        "template": "ddp", "webhook": "nightly",
    }  # fmt: skip
    project = {"department": "research", "job": {}, "url": "https://x.example", "project": "vision"}
    users = [f"{role}-{scope or 'fleet'}" for role, scope in itertools.product(ROLES, SCOPES)]

    def both(kind, user):
        door, name = Door(world.url), names[kind]
        fields = ("project",) if kind in ("template", "webhook") else ()
        fields += ("department",) if kind == "project" else ()
        body = {"type": kind, "name": name, **{field: project[field] for field in fields}}
        whose = "?project=vision" if "project" in body else ""
        put = door.ask("PUT", "/v1/documents", body, user)[0]
        gone = door.ask("DELETE", f"/v1/documents/{kind}/{name}{whose}", None, user)[0]
        return kind, user, put == 200, gone == 200

    def all_of_them():
        return [both(kind, user) for kind, user in itertools.product(names, users)]

    found = await asyncio.to_thread(all_of_them)
    assert [row for row in found if row[2] is not row[3]] == []
    assert {kind for kind, user, may, _ in found if may and user == "project-admin-vision"} == {
        "template", "webhook",
    }  # fmt: skip


async def test_a_template_is_shown_to_those_of_its_project_and_one_of_the_fleet_to_all(world):
    await peopled(world)
    for name, of in (("ours", "vision"), ("theirs", "zeta"), ("everybodys", "")):
        template = Template(name=name, project=of, job='{"nodes":2}')
        event = TemplateConfigured(name=name, project=of, template=template, change="created")
        await world.gateway.follower.reached(await world.append(event))

    def seen(user):
        _, answer = Door(world.url).ask("GET", "/v1/templates", None, user)
        return [row["name"] for row in msgspec.json.decode(answer)]

    def one(user, name):
        return Door(world.url).ask("GET", f"/v1/templates/{name}", None, user)[0]

    assert await asyncio.to_thread(seen, "viewer-vision") == ["everybodys", "ours"]
    assert await asyncio.to_thread(seen, "admin-fleet") == ["everybodys", "ours", "theirs"]
    assert await asyncio.to_thread(one, "viewer-vision", "theirs") == 404
    assert await asyncio.to_thread(one, "viewer-vision", "ours") == 200
