"""Service accounts at the gateway's door: whose they are, and what they may do in people's names."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.gateway.histories import requested
from tests.gateway.people import configured, person, secret_of, tree
from tests.gateway.test_people import in_log, spoken

from headrace.client import AsyncClient, Client, ClientError
from headrace.events.queues import Listed

AIRFLOW, ETL = "service:vision/airflow", "service:vision/etl"
FORBIDDEN_THROUGH_A_SERVICE = (
    ("GET", "/v1/users"),
    ("GET", "/v1/roles"),
    ("GET", "/v1/roles?scope=vision"),
    ("GET", "/v1/tokens"),
    ("GET", "/v1/publishers"),
    ("DELETE", "/v1/tokens/id-boss"),
    ("DELETE", "/v1/users/ada"),
    ("DELETE", "/v1/services/vision/etl"),
    ("DELETE", "/v1/roles?member=user:ada&role=viewer&scope=vision"),
    ("POST", "/v1/tokens"),
    ("POST", "/v1/roles"),
    ("PUT", "/v1/services/vision/etl"),
    ("POST", "/v1/publishers"),
    ("GET", "/v1/join-tokens"),
)


async def test_a_service_acts_for_a_person_and_both_are_on_record(world):
    events = [
        *person(AIRFLOW, ("researcher", "vision"), ("researcher", "zeta"), acts_for=True),
        *person(ETL, ("researcher", "vision")),
        *person("ada", ("researcher", "vision"), ("researcher", "zeta")),
    ]
    await in_log(world, *tree(), *events)
    await world.answer("job.submit", lambda _: {"accepted": True, "position": 0, "job": "x-1"})

    def submit(user, project, person):
        body = json.dumps({"project": project}).encode()
        return spoken(world, user, "POST", body=body, **{"Headrace-On-Behalf-Of": person})

    assert (await asyncio.to_thread(submit, AIRFLOW, "vision", "ada"))[0] == 201
    headers = world.asked[0].headers
    assert headers["ce-source"] == "/gateway/ada%20via%20service%3Avision/airflow"
    assert (headers["Headrace-Actor"], headers["Headrace-Via"]) == ("ada", AIRFLOW)
    assert (await asyncio.to_thread(submit, AIRFLOW, "zeta", "ada"))[0] == 403
    for user, person_ in ((ETL, "ada"), ("ada", "ada"), (AIRFLOW, ETL), (AIRFLOW, "admin")):
        assert (await asyncio.to_thread(submit, user, "vision", person_))[0] == 403


async def test_a_client_asks_in_the_name_of_its_person(world):
    events = [
        *person(AIRFLOW, ("researcher", "vision"), acts_for=True),
        *person("ada", ("researcher", "vision")),
    ]
    await in_log(world, *tree(), *events)
    await world.answer("job.submit", lambda _: {"accepted": True, "position": 0, "job": "x-1"})
    client = Client(world.url, secret_of(AIRFLOW), "vision", person="ada")
    for each in (client, client.copy()):
        await world.call(each.submit, {"name": "x", "command": ["true"]})
    said = [
        (asked.headers["Headrace-Actor"], asked.headers["Headrace-Via"]) for asked in world.asked
    ]
    assert said == [("ada", AIRFLOW)] * 2
    async with AsyncClient(world.url, secret_of(AIRFLOW), "vision", person="ada") as client:
        await client.submit({"name": "x", "command": ["true"]})
    assert world.asked[-1].headers["Headrace-Actor"] == "ada"


async def test_a_service_acts_only_inside_its_project_and_for_people_with_a_role_there(world):
    events = [
        *person(AIRFLOW, ("project-admin", "vision"), ("admin", ""), acts_for=True),
        *person("boss", ("admin", "")),
        *person("zoe", ("researcher", "zeta")),
        *person("ada", ("researcher", "vision"), ("project-admin", "zeta")),
    ]
    await in_log(world, *tree(), *events, requested("theirs-z", "zeta"))

    def ask(person_, method="GET", path="/v1/me", body=None):
        said = spoken(world, AIRFLOW, method, path, body, **{"Headrace-On-Behalf-Of": person_})
        return said[0], json.loads(said[1])

    strangers = [await world.call(ask, name) for name in ("zoe", "nobody")]
    assert strangers[0] == strangers[1]
    assert strangers[0][0] == 403
    for name, role in (("boss", "admin"), ("ada", "researcher")):
        status, me = await world.call(ask, name)
        assert (status, me["roles"]) == (200, [{"member": "", "role": role, "scope": "vision"}])
        assert (await world.call(ask, name, "GET", "/v1/jobs/theirs-z"))[0] == 404
        assert (await world.call(ask, name, "GET", "/v1/jobs"))[1]["jobs"] == []


@pytest.mark.parametrize(("method", "path"), FORBIDDEN_THROUGH_A_SERVICE)
async def test_nobodys_name_lets_a_service_at_what_lets_people_in(world, method, path):
    fleets = person("service:root", ("admin", ""), acts_for=True)
    await in_log(world, *tree(), *fleets, *person("boss", ("admin", "")), *person("ada"))
    known = {
        "/v1/tokens": {"token": "t9", "digest": "a" * 64},
        "/v1/roles": {"member": "user:ada", "role": "viewer", "scope": "vision"},
        "/v1/publishers": {"name": "etl", "project": "vision", "public_key": "U"},
    }
    body = json.dumps(known.get(path, {})).encode() if method in ("POST", "PUT") else None
    headers = {"Headrace-On-Behalf-Of": "boss", "Content-Type": "application/json"}
    status, said = await world.call(spoken, world, "service:root", method, path, body, **headers)
    assert status == 403
    assert "in the name of another" in json.loads(said)["message"]


async def test_a_document_neither_names_nor_drops_who_has_roles_through_a_service(world):
    listed = (Listed(member="user:ada", role="viewer"),)
    fleets = person("service:root", ("admin", ""), acts_for=True)
    await in_log(world, *tree(), *fleets, *person("boss", ("admin", "")))
    await in_log(world, configured("vision", "research", listed))
    await world.answer("queue.apply", lambda _: {"accepted": True, "position": 0})
    named = {"type": "project", "name": "new", "department": "research"}
    headers = {"Headrace-On-Behalf-Of": "boss", "Content-Type": "application/json"}

    def apply(**more):
        body = json.dumps({**named, **more}).encode()
        return spoken(world, "service:root", "PUT", "/v1/documents", body, **headers)[0]

    assert await world.call(apply) == 200
    assert await world.call(apply, members=[{"user": "ada", "role": "viewer"}]) == 403
    assert await world.call(apply, name="vision") == 403


async def test_a_service_that_does_not_exist_is_in_no_document_but_its_own_projects(world):
    await in_log(world, *tree(), *person("dee", ("department-admin", "research")), *person(AIRFLOW))
    await world.answer("queue.apply", lambda _: {"accepted": True, "position": 0})
    dee = world.client(secret_of("dee"))

    def apply(name, service):
        members = [{"service": service, "role": "viewer"}]
        document = {"type": "project", "name": name, "department": "research", "members": members}
        return dee.apply(document)

    await world.call(apply, "new", "vision/airflow")
    await world.call(apply, "new", "new/airflow")
    for service in ("airflow", "vision/other", "zeta/airflow"):
        with pytest.raises(ClientError, match="is no service"):
            await world.call(apply, "new", service)


async def test_no_name_of_a_person_can_be_made_a_services(world):
    await in_log(world, *tree(), *person("pat", ("project-admin", "vision")), *person("boss"))
    await world.answer("user.set", lambda _: {"accepted": True, "position": 0})
    body, json_ = b'{"kind": "service", "home": "vision"}', {"Content-Type": "application/json"}
    attempts = {
        "/v1/users/boss": b"{}",
        "/v1/users/service:vision": b"{}",
        "/v1/users/service:vision%2Fetl": b"{}",
        "/v1/services/boss": b"{}",
        "/v1/services/zeta/boss": b"{}",
        "/v1/services/vision%2Fetl": b"{}",
        "/v1/services/vision%2F..%2F..%2Fusers%2Fboss": b"{}",
    }
    for path, given in attempts.items():
        status, _ = await world.call(spoken, world, "pat", "PUT", path, given, **json_)
        assert status in (403, 404, 405) or path.count("%2F") == 1, path
    status, _ = await world.call(spoken, world, "pat", "PUT", "/v1/users/boss", body, **json_)
    assert status in (400, 403)
    asked = {json.loads(message.data)["user"] for message in world.asked}
    assert asked <= {"service:vision/etl"}


async def test_a_project_admin_runs_the_services_of_the_project_and_no_others(world):
    events = [
        *person("pat", ("project-admin", "vision")),
        *person(ETL),
        *person("service:zeta/other"),
    ]
    await in_log(world, *tree(), *events)
    for verb in ("token.create", "user.set", "role.grant"):
        await world.answer(verb, lambda _: {"accepted": True, "position": 0})
    pat = world.client(secret_of("pat"))
    await world.call(pat.create_token, user=ETL)
    await world.call(pat.set_service, "new", home="vision")
    await world.call(pat.grant_role, ETL, "researcher", "vision")
    for refused in (
        lambda: pat.create_token(user="service:zeta/other"),
        lambda: pat.set_service("new", home="zeta"),
        lambda: pat.set_service("new"),
        lambda: pat.set_user("bob", groups=["admins"]),
        lambda: pat.grant_role("user:bob", "department-admin", "vision"),
        lambda: pat.grant_role("user:bob", "viewer", "zeta"),
        lambda: pat.grant_role("user:bob", "viewer"),
    ):
        with pytest.raises(ClientError, match="refused"):
            await world.call(refused)
    assert [row.user for row in await world.call(pat.users)] == ["pat", ETL]


async def test_whose_a_service_of_another_project_is_nobody_is_told(world):
    theirs = person("service:zeta/secret-etl", ("researcher", "zeta"))
    await in_log(world, *tree(), *person("ada", ("project-admin", "vision")), *theirs)
    body = b'{"acts_for": true}'
    json_ = {"Content-Type": "application/json"}
    for method, given in (("PUT", body), ("DELETE", None)):
        path = "/v1/services/zeta/secret-etl"
        status, said = await world.call(spoken, world, "ada", method, path, given, **json_)
        assert status == 403
        path = "/v1/services/zeta/no-etl"
        assert (status, said.replace(b"secret", b"no")) == await world.call(
            spoken, world, "ada", method, path, given, **json_
        )
