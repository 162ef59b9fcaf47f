"""Everybody there can be × everything that can be asked, at a platform that runs.

Rule: what the table of access denies the door denies, and nothing else. An operation, a socket or a
request of the bus that is new fails here until somebody has written down what it takes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import nats
import pytest
from tests.end_to_end.conftest import running_platform
from tests.security.expectations import CELLS, ROLES, Actor, is_let_in, may
from tests.security.operations import FLEET, OPEN, OPERATIONS, PLACES, SIGNED_IN

from headrace.admission.requests import Requests
from headrace.client import Client, ClientError
from headrace.client.session_model import Visit
from headrace.placement.requests import RECEIVERS as PLACEMENT_RECEIVERS
from headrace.quota.requests import RECEIVERS as QUOTA_RECEIVERS

pytestmark = pytest.mark.security

FLEET_ONLY, DEPARTMENT_ONLY = "admin", "department-admin"
SCOPES = ("", "research", "vision", "zeta")
HIDDEN = (b"no job ", b"no token ")
DEPARTMENTS = {"research": "vision", "labs": "zeta"}
ANSWER_S = 60


class Stage:
    """A platform with everybody in it. `tokens` are by the actor's name."""

    def __init__(self, platform) -> None:
        self.platform = platform
        self.admin: Client = platform.client()
        self.tokens: dict[str, str] = {"a stranger": "hra_00000000_no-token-of-ours", "nobody": ""}
        self.ids: dict[str, str] = {}
        self.actors: list[Actor] = [
            Actor("a stranger", is_known=False), Actor("nobody", is_known=False)
        ]  # fmt: skip
        self._doors: dict[str, http.client.HTTPConnection] = {}

    def fill(self) -> None:
        for department, project in DEPARTMENTS.items():
            self.admin.apply({"type": "department", "name": department})
            self.admin.apply({"type": "project", "name": project, "department": department})
        self._people()
        self._services()
        for project in PLACES:
            self.ids[f"job-of-{project}"] = self._job(project)
            self.ids[f"tasks-of-{project}"] = self._job(project, array="0..1")
            self._job(project)  # so that nobody can erase the project

    def ask(self, actor: Actor, method: str, path: str, body: object) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if token := self.tokens[actor.name]:
            headers["Authorization"] = f"Bearer {token}"
        if actor.service is not None:
            headers["Headrace-On-Behalf-Of"] = actor.name.partition(" by ")[0]
        data = None if body is None else json.dumps(body)
        door = self._doors.setdefault(
            actor.name,
            http.client.HTTPConnection(urlsplit(self.platform.url).netloc, timeout=ANSWER_S),
        )
        door.request(method.upper(), self._named(path), data, headers)
        answer = door.getresponse()
        return answer.status, answer.read()

    def _named(self, path: str) -> str:
        for word, found in self.ids.items():
            path = path.replace(word, found)
        if "token-of-ada" in path:  # whoever may take it back takes it back
            path = path.replace("token-of-ada", self.admin.create_token(user="ada").id)
        return path

    def _people(self) -> None:
        for scope in SCOPES:
            for role in ROLES:
                is_fitting = role != FLEET_ONLY or not scope
                if is_fitting and (role != DEPARTMENT_ONLY or scope not in PLACES):
                    self._person(f"{role}-{scope or 'fleet'}", ((role, scope),))
        self._person("without", ())
        for base, narrowing in (
            ("researcher-vision", {"scopes": ("job.read", "logs.*")}),
            ("researcher-vision", {"projects": ("zeta",)}),
            ("admin-fleet", {"projects": ("zeta",)}),
            ("admin-fleet", {"scopes": ("*.read",)}),
        ):
            actor = next(each for each in self.actors if each.name == base)
            narrowed = replace(actor, name=f"{base} for {narrowing}", **narrowing)
            self.tokens[narrowed.name] = self.admin.create_token(
                user=base, **{name: list(words) for name, words in narrowing.items()}
            ).text
            self.actors.append(narrowed)

    def _person(self, name: str, roles: tuple[tuple[str, str], ...]) -> None:
        for role, scope in roles:
            self.admin.grant_role(f"user:{name}", role, scope)
        self.tokens[name] = self.admin.create_token(user=name).text
        self.actors.append(Actor(name, roles))

    def _services(self) -> None:
        people = ("admin-fleet", "department-admin-research", "researcher-vision",
                  "viewer-vision", "researcher-zeta", "without")  # fmt: skip
        for home, name, roles in (
            ("vision", "boss", (("project-admin", "vision"), ("researcher", "zeta"))),
            ("vision", "runner", (("researcher", "vision"),)),
            ("research", "desk", (("department-admin", "research"),)),
            ("", "ops", (("admin", ""),)),
        ):
            self.admin.set_service(name, home=home, acts_for=True)
            service = f"service:{home}/{name}" if home else f"service:{name}"
            for role, scope in roles:
                self.admin.grant_role(service, role, scope)
            self.tokens[service] = self.admin.create_token(user=service).text
            self.actors.append(Actor(service, roles))
            for person in people:
                known = next(each for each in self.actors if each.name == person)
                acting = Actor(f"{person} by {service}", known.roles, service=roles, home=home)
                self.tokens[acting.name] = self.tokens[service]
                self.actors.append(acting)

    def _job(self, project: str, **more: object) -> str:
        """A job that waits for ever: no machine of the platform has so many GPUs."""
        asked = {"project": project, "command": ["true"], "resources": {"gpus": 64}, **more}
        return self.admin.submit({"name": "waits", **asked}).job


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with running_platform("--nodes", "1", "--gpus", "simulated:1xH100-80GB") as platform:
        platform.wait_ready()
        made = Stage(platform)
        made.fill()
        yield made
        platform.verify()


def test_every_operation_of_the_document_has_an_expectation(stage):
    _, answer = stage.ask(stage.actors[0], "get", "/schema/openapi.json", None)
    paths = json.loads(answer)["paths"]
    offered = {
        (method, path) for path, methods in paths.items() for method in methods if method != "head"
    }
    assert offered == OPERATIONS.keys() | SIGNED_IN | OPEN
    rights = {right for asked in OPERATIONS.values() for each in asked for right, _ in each.needs}
    assert {right for right in rights if (right, "admin") not in CELLS} == set()


def test_what_the_table_denies_the_gateway_denies_to_everybody_and_nothing_else(stage):
    wrong, tried = [], 0
    for (method, _), requests in OPERATIONS.items():
        for asked in requests:
            for actor in stage.actors:
                status, answer = stage.ask(actor, method, asked.path, asked.body)
                is_hidden = status == 404 and any(word in answer for word in HIDDEN)
                is_in = status not in (401, 403, 429) and not is_hidden
                allowed = all(may(actor, right, where) for right, where in asked.needs)
                allowed &= not (asked.is_narrowed_refused and actor.is_narrowed)
                tried += 1
                if status >= 500 or is_in is not allowed:
                    wrong.append((actor.name, method, asked, status, answer[:160]))
    assert wrong == []
    assert tried > 4_000


def test_who_one_is_is_told_to_all_who_are_let_in(stage):
    for actor in stage.actors:
        status, _ = stage.ask(actor, "get", "/v1/me", None)
        assert (status == 200) is is_let_in(actor), actor


def test_who_may_not_enter_a_job_gets_into_no_session(stage):
    for actor in stage.actors:
        if actor.service is not None:  # a session is asked for with a token alone
            continue
        for place in PLACES:
            client = Client(stage.platform.url, stage.tokens[actor.name], place)
            with pytest.raises(ClientError) as refused:
                client.enter(stage.ids[f"job-of-{place}"], Visit(way="exec", command=("sh",)))
            is_in = "does not run" in str(refused.value)
            assert is_in is may(actor, "job.enter", place), (actor, place, str(refused.value))


ADMISSIONS = Requests(master_key=bytes(32), account_seed="").receivers()
VERBS = sorted({*ADMISSIONS, *PLACEMENT_RECEIVERS, *QUOTA_RECEIVERS})


LAST = "headrace.log.matrix.last.{}"  # which no login may send: refused after all before it


class Sender:
    """A login of the bus that sends whatever there is, and keeps what the bus did not take."""

    def __init__(self, url: str, creds: str, inbox: str) -> None:
        self._url, self._creds, self._inbox = url, creds, inbox
        self._refused: dict[str, None] = {}
        self._is_news = asyncio.Event()
        self._rounds = 0

    async def __aenter__(self) -> Self:
        self.connection = await nats.connect(
            self._url,
            user_credentials=self._creds,
            inbox_prefix=self._inbox,
            error_cb=self._note,
            max_reconnect_attempts=2,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def ask(self, subject: str) -> dict[str, Any]:
        """What a service answers."""
        answer = await self.connection.request(subject, b"{}", ANSWER_S, headers=envelope(subject))
        return json.loads(answer.data)

    async def taken(self, subjects: Iterable[str]) -> list[str]:
        """Those that the bus takes."""
        self._rounds += 1
        sent, last = tuple(subjects), LAST.format(self._rounds)
        for subject in (*sent, last):
            await self.connection.publish(subject, b"{}", headers=envelope(subject))
        async with asyncio.timeout(ANSWER_S):
            while last not in self._refused:
                await self._is_news.wait()
                self._is_news.clear()
        return [subject for subject in sent if subject not in self._refused]

    async def _note(self, error: Exception) -> None:
        self._refused[str(error).partition('"')[2].partition('"')[0].lower()] = None
        self._is_news.set()


def envelope(subject: str) -> dict[str, str]:
    return {
        "ce-id": f"matrix-{subject}",
        "ce-type": "x",
        "ce-source": "/x",
        "ce-specversion": "1.0",
    }


def subject_of(door: str, place: str, verb: str) -> str:
    return f"headrace.{door}.{place}.{verb.replace('_', '-')}"


def subjects(door: str, place: str) -> list[str]:
    return [subject_of(door, place, verb) for verb in VERBS]


@pytest.fixture(scope="module")
def publisher(stage, tmp_path_factory) -> str:
    creds = str(tmp_path_factory.mktemp("publisher") / "etl.creds")
    stage.platform.headrace("publisher", "create", "etl", "--project", "vision", "--out", creds)
    return creds


async def test_a_publisher_asks_for_what_the_table_says_in_its_project_and_reaches_no_other(
    stage, publisher
):
    url, inbox = stage.platform.nats_url, inbox_of(publisher)
    async with Sender(url, publisher, inbox) as sender:
        for verb in VERBS:
            subject = subject_of("request", "vision", verb)
            if not verb.startswith("job."):
                others = (subject, subject_of("post", "vision", verb))
                assert await sender.taken(others) == []
                continue
            said = await sender.ask(subject)
            allowed = CELLS.get((verb, "publisher"), "-") != "-"
            assert (said.get("refusal", {}).get("field") != "access") is allowed, (verb, said)
            assert not said["accepted"], (verb, said)
        for door in ("request", "post", "gateway"):
            for place in ("zeta", "research", FLEET, *(("vision",) if door == "gateway" else ())):
                assert await sender.taken(subjects(door, place)) == []


async def test_a_node_asks_for_nothing(stage):
    creds, inbox = node_login(stage)
    async with Sender(stage.platform.nats_url, creds, inbox) as sender:
        for door in ("request", "post", "gateway"):
            for place in (*PLACES, FLEET):
                assert await sender.taken(subjects(door, place)) == []
        assert await sender.taken(OTHERS_OF_THE_BUS) == []


OTHERS_OF_THE_BUS = (
    "headrace.log.job.finished.v1", "headrace.event.vision.job.finished.v1",
    "headrace.agent.n2.up.report", "headrace.agent.n1.down.desired", "headrace.query.placement.why",
    "headrace.relay.log.job.finished.v1",
)  # fmt: skip


async def test_every_request_of_the_bus_is_one_that_the_table_knows_or_denies(stage):
    del stage
    assert set(VERBS) == DENIED_TO_PUBLISHERS | {
        verb for verb in VERBS if CELLS.get((verb, "publisher"), "-") != "-"
    }


DENIED_TO_PUBLISHERS = {
    "access.approve", "access.create_token", "access.credential", "access.denied", "access.join",
    "access.read", "access.revoke_token", "access.signed_in", "job.enter",
    "node.change", "pool.apply", "pool.delete", "project.erase", "publisher.create",
    "publisher.delete", "queue.apply", "queue.delete", "role.grant", "role.revoke",
    "scheduling.apply", "scheduling.delete", "secret.set", "template.apply", "template.delete",
    "token.create", "token.revoke", "user.remove", "user.set", "volume.apply", "volume.delete",
    "webhook.apply", "webhook.delete",
}  # fmt: skip


def inbox_of(creds: str) -> str:
    """Where the login may hear answers, as its JWT says."""
    body = Path(creds).read_text(encoding="ascii").split("-----")[2].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    heard = claims["nats"]["sub"]["allow"]
    return next(s for s in heard if s.startswith("_INBOX")).partition(".")[0]


def node_login(stage: Stage) -> tuple[str, str]:
    """The login that n1 got when it joined."""
    with contextlib.suppress(StopIteration):
        found = next(stage.platform.layout.node("n1").rglob("*.creds"))
        return str(found), inbox_of(str(found))
    raise AssertionError("n1 has no login of the bus")
