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
from tests.gateway.histories import joined, requested
from tests.gateway.people import SCOPES, TREE, person, secret_of, tree

from headrace.access.allowed import Scope, Subject, allowed, allowed_to_give
from headrace.access.table import MAY, ROLES
from headrace.client import Client, ClientError
from headrace.client.session_model import Visit
from headrace.events import Refusal
from headrace.events.people import Account, Grant, UserSet
from headrace.gateway.app import api

HERE = Scope(("vision", "research"))
FLEET = Scope()
JOB, OTHERS_JOB = "hello-a", "omega-x1y2"
DIGEST = "a" * 64

# What is sent to each route, and where what it does is done: in `vision` or in the fleet.
REQUESTS = {
    ("POST", "/v1/projection/rebuild"): ("/v1/projection/rebuild", None, FLEET),
    ("POST", "/v1/jobs"): ("/v1/jobs", {"project": "vision"}, HERE),
    ("GET", "/v1/jobs"): ("/v1/jobs", None, None),
    ("GET", "/v1/jobs/{job:str}"): (f"/v1/jobs/{JOB}", None, HERE),
    ("GET", "/v1/jobs/{job:str}/{index:int}"): (f"/v1/jobs/{JOB}/0", None, HERE),
    ("GET", "/v1/jobs/{job:str}/outputs"): (f"/v1/jobs/{JOB}/outputs", None, HERE),
    ("GET", "/v1/jobs/{job:str}/outputs/{tree:str}"): (
        f"/v1/jobs/{JOB}/outputs/{DIGEST}",
        None,
        HERE,
    ),
    ("GET", "/v1/jobs/{job:str}/{index:int}/outputs"): (f"/v1/jobs/{JOB}/0/outputs", None, HERE),
    ("GET", "/v1/jobs/{job:str}/{index:int}/outputs/{tree:str}"): (
        f"/v1/jobs/{JOB}/0/outputs/{DIGEST}",
        None,
        HERE,
    ),
    ("DELETE", "/v1/jobs/{job:str}"): (f"/v1/jobs/{JOB}", None, HERE),
    ("DELETE", "/v1/jobs/{job:str}/{index:int}"): (f"/v1/jobs/{JOB}/0", None, HERE),
    ("POST", "/v1/jobs/{job:str}/pause"): (f"/v1/jobs/{JOB}/pause", None, HERE),
    ("POST", "/v1/jobs/{job:str}/{index:int}/pause"): (f"/v1/jobs/{JOB}/0/pause", None, HERE),
    ("POST", "/v1/jobs/{job:str}/resume"): (f"/v1/jobs/{JOB}/resume", None, HERE),
    ("POST", "/v1/jobs/{job:str}/{index:int}/resume"): (f"/v1/jobs/{JOB}/0/resume", None, HERE),
    ("GET", "/v1/jobs/{job:str}/why"): (f"/v1/jobs/{JOB}/why", None, HERE),
    ("GET", "/v1/jobs/{job:str}/{index:int}/why"): (f"/v1/jobs/{JOB}/0/why", None, HERE),
    ("GET", "/v1/jobs/{job:str}/logs"): (f"/v1/jobs/{JOB}/logs", None, HERE),
    ("GET", "/v1/jobs/{job:str}/{index:int}/logs"): (f"/v1/jobs/{JOB}/0/logs", None, HERE),
    ("POST", "/v1/jobs/{job:str}/opening"): (f"/v1/jobs/{JOB}/opening", None, HERE),
    ("GET", "/v1/events"): ("/v1/events?project=vision", None, HERE),
    ("GET", "/v1/nodes"): ("/v1/nodes", None, None),
    ("GET", "/v1/nodes/{node:str}"): ("/v1/nodes/n1", None, None),
    ("POST", "/v1/nodes/{node:str}"): ("/v1/nodes/n1", {"change": "cordon"}, FLEET),
    ("GET", "/v1/projects"): ("/v1/projects", None, None),
    ("PUT", "/v1/documents"): (
        "/v1/documents",
        {"type": "project", "name": "vision", "department": "research"},
        HERE,
    ),
    ("GET", "/v1/pools"): ("/v1/pools", None, None),
    ("GET", "/v1/volumes"): ("/v1/volumes", None, None),
    ("GET", "/v1/secrets"): ("/v1/secrets", None, None),
    ("GET", "/v1/publishers"): ("/v1/publishers", None, None),
    ("PUT", "/v1/secrets/{project:str}/{name:str}"): ("/v1/secrets/vision/A", {"v": 1}, HERE),
    ("POST", "/v1/publishers"): (
        "/v1/publishers",
        {"name": "etl", "project": "vision", "public_key": "U"},
        HERE,
    ),
    ("DELETE", "/v1/projects/{project:str}/data"): ("/v1/projects/vision/data", None, HERE),
    ("GET", "/v1/status"): ("/v1/status", None, None),
    ("POST", "/v1/join-tokens"): ("/v1/join-tokens", {"token": "t", "digest": DIGEST}, FLEET),
    ("GET", "/v1/join-tokens"): ("/v1/join-tokens", None, FLEET),
    ("DELETE", "/v1/join-tokens/{token:str}"): ("/v1/join-tokens/t", None, FLEET),
    ("POST", "/v1/nodes/{node:str}/approval"): ("/v1/nodes/n2/approval", {}, FLEET),
    ("GET", "/v1/projects/{project:str}/bundles/{name:str}"): (
        f"/v1/projects/vision/bundles/{DIGEST}",
        None,
        HERE,
    ),
    ("PUT", "/v1/projects/{project:str}/bundles"): ("/v1/projects/vision/bundles", {}, HERE),
    ("POST", "/v1/projects/{project:str}/objects"): ("/v1/projects/vision/objects", None, HERE),
    ("GET", "/v1/webhooks"): ("/v1/webhooks", None, None),
    ("DELETE", "/v1/webhooks/{project:str}/{name:str}"): ("/v1/webhooks/vision/w", None, HERE),
    ("GET", "/v1/usage"): ("/v1/usage", None, None),
    ("GET", "/v1/users"): ("/v1/users", None, None),
    ("PUT", "/v1/users/{user:str}"): (
        "/v1/users/etl",
        {"kind": "service", "home": "vision"},
        HERE,
    ),
    ("DELETE", "/v1/users/{user:str}"): ("/v1/users/etl", None, HERE),
    ("GET", "/v1/roles"): ("/v1/roles", None, None),
    ("POST", "/v1/roles"): (
        "/v1/roles",
        {"member": "user:bob", "role": "viewer", "scope": "vision"},
        HERE,
    ),
    ("DELETE", "/v1/roles"): ("/v1/roles?member=user:bob&role=viewer&scope=vision", None, HERE),
    ("GET", "/v1/tokens"): ("/v1/tokens", None, None),
    ("POST", "/v1/tokens"): (
        "/v1/tokens",
        {"token": "t9", "digest": DIGEST, "user": "bob"},
        FLEET,
    ),
    ("DELETE", "/v1/tokens/{token:str}"): ("/v1/tokens/id-bob", None, FLEET),
}
SIGNED_IN = {("GET", "/v1/me")}
OPEN = {("GET", "/v1/login"), ("POST", "/v1/join"), ("POST", "/v1/credential")}
SESSIONS = {"/v1/jobs/{job:str}/session", "/v1/jobs/{job:str}/{index:int}/session"}


def routes(world):
    """Each route of `/v1` with its method and its options."""
    for route in api(world.gateway).routes:
        path = route.path_format.replace("{job}", "{job:str}")
        for name, kind in (
            ("node", "str"), ("token", "str"), ("project", "str"), ("name", "str"),
            ("user", "str"), ("tree", "str"), ("index", "int"),
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
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)

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
                 "token"):  # fmt: skip
        await world.bus.subscribe(f"headrace.gateway.*.{noun}.*", accept)
    for verb in ("create-token", "revoke-token", "approve"):
        await world.bus.subscribe(f"headrace.gateway.*.access.{verb}", accept)

    async def not_known(message):
        await world.bus.publish(message.reply, b"null")

    await world.bus.subscribe("headrace.query.placement.why", not_known)
    service = Account(kind="service", home="vision")
    events = [
        *tree(), joined(), UserSet(user="etl", account=service, change="created"), *person("bob"),
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
    found = list(routes(world))
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
        for method, path, opt in routes(world):
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
    visit = Visit(way="exec", key="v1", command=("sh",))
    with pytest.raises(ClientError, match=r"job.enter|no job|HTTP 403|403"):
        await world.call(client.enter, JOB, visit)


async def test_no_read_shows_anything_of_another_project(world):
    await peopled(world)
    hidden = ("zeta", "omega", "researcher-zeta")
    shown = []

    def read_all():
        door = Door(world.url)
        for method, path, opt in routes(world):
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
