"""A platform with everybody in it who could ask for something."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from urllib.parse import urlsplit

from tests.security.expectations import ROLES, Actor
from tests.security.operations import PLACES

from headrace.client import Client

FLEET_ONLY, DEPARTMENT_ONLY = "admin", "department-admin"
SCOPES = ("", "research", "vision", "zeta")
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
