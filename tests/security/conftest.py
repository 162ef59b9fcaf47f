"""A platform that root runs and one that a person runs, each with two projects that are strangers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
import pytest
from tests.end_to_end.conftest import Platform, running_platform
from tests.end_to_end.persons import IS_ROOT, persons_platform
from tests.security.stage import Stage

from headrace.client import Client

OPTIONS = ("--nodes", "1", "--gpus", "simulated:8xH100-80GB")
FLEET = """
type: project
name: blue
members: [{user: bea, role: researcher}]
---
type: project
name: red
members: [{user: rob, role: researcher}]
"""


class Grounds(msgspec.Struct, frozen=True):
    """A platform to attack: who runs it (`root` or `person`), and the clients of its two strangers."""

    platform: Platform
    kind: str
    bea: Client
    rob: Client


@pytest.fixture(scope="module", params=["root", "person"])
def grounds(request: pytest.FixtureRequest) -> Iterator[Grounds]:
    """With the projects `blue` (bea's) and `red` (rob's)."""
    if request.param == "root" and not IS_ROOT:
        pytest.skip("only root can run a platform as root")
    start = running_platform if request.param == "root" else persons_platform
    with start(*OPTIONS, HEADRACE_NODE_SHOWN="") as platform, contextlib.ExitStack() as clients:
        platform.headrace("apply", "-f", "-", stdin=FLEET)
        found = []
        for user, project in (("bea", "blue"), ("rob", "red")):
            words = ("token", "create", "--user", user, "--expires", "1h")
            token = platform.headrace(*words).stdout.split()[0]
            client = Client(platform.url, token, project)
            found.append(clients.enter_context(contextlib.closing(client)))
        yield Grounds(platform, request.param, *found)


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """A platform with projects, people, services and tokens of all kinds, for requests of every route."""
    with running_platform("--nodes", "1", "--gpus", "simulated:1xH100-80GB") as platform:
        platform.wait_ready()
        made = Stage(platform)
        made.fill()
        yield made
        platform.verify()
