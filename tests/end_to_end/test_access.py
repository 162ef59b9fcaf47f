"""People with roles on a whole platform, and services kept to what they need."""

from __future__ import annotations

import re

import pytest

from headrace.client.client import Client
from headrace.client.errors import ClientError, NotFound
from headrace.embedded.services import SERVICES

NAMES = "|".join((*SERVICES, "relay"))
DOCUMENTS = """
type: project
name: seen
gpus: {quota: 1}
members: [{user: ada, role: researcher}, {group: everybody, role: viewer}]
---
type: project
name: hidden
gpus: {quota: 1}
"""


@pytest.fixture(scope="module")
def fleet(platform):
    platform.wait_ready()
    platform.headrace("apply", "-f", "-", stdin=DOCUMENTS)
    return platform


def client_of(fleet, words):
    """A client with a token that the command line has just made."""
    text = fleet.headrace("token", "create", *words).stdout.split()[0]
    return Client(fleet.url, text, "seen")


def test_a_member_of_a_document_works_in_the_project_and_sees_no_other(fleet):
    ada = client_of(fleet, ("--user", "ada", "--expires", "1h"))
    mine = ada.submit(
        {"name": "mine", "project": "seen", "command": ["true"], "resources": {"gpus": 1}}
    ).job
    job = {"name": "theirs", "project": "hidden", "command": ["true"], "resources": {"gpus": 1}}
    theirs = Client(fleet.url, fleet.token).submit(job).job
    fleet.ended(mine), fleet.ended(theirs)
    assert {row.job for row in ada.jobs(limit=100).jobs} == {mine}
    assert [row.project for row in ada.projects()] == ["seen"]
    assert "".join(piece.text for piece in ada.logs(mine)) == ""
    with pytest.raises(NotFound):
        ada.job(theirs)
    with pytest.raises(ClientError, match=r"access = job\.submit"):
        ada.submit(job)
    admin = Client(fleet.url, fleet.token)
    fleet.wait(lambda: list(admin.events(type_prefix="access.d")), "the refusal on record")
    record = [event.type for event in admin.events(type_prefix="access.d")]
    assert record == ["access.denied.v1"]
    (token,) = ada.tokens()
    ada.revoke_token(token.token)
    with pytest.raises(ClientError, match="token is not valid"):
        ada.whoami()


def test_no_service_was_refused_anything_on_the_bus(fleet):
    fleet.wait_ready()
    said = fleet.logs()["nats"].splitlines()
    named = re.compile(rf':({NAMES})"')
    assert [line for line in said if "Violation" in line and named.search(line)] == []
