"""Everybody there can be × everything that can be asked, at a platform that runs.

Rule: what the table of access denies the door denies, and nothing else. An operation, a socket or a
request of the bus that is new fails here until somebody has written down what it takes.
"""

from __future__ import annotations

import json

import pytest
from tests.security.expectations import CELLS, is_let_in, may
from tests.security.operations import OPEN, OPERATIONS, PLACES, SIGNED_IN

from headrace.client import Client, ClientError
from headrace.client.session_model import Visit

pytestmark = pytest.mark.security

HIDDEN = (b"no job ", b"no token ")


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
