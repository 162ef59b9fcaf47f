"""Everybody there can be × everything that can be asked, at a platform that runs.

Rule: what the table of access denies the door denies, and nothing else. An operation, a socket or a
request of the bus that is new fails here until somebody has written down what it takes.
"""

from __future__ import annotations

import json
import time

import pytest
from tests.security.expectations import CELLS, is_let_in, may
from tests.security.operations import OPEN, OPERATIONS, PLACES, SIGNED_IN

from headrace.bus.credentials import new_user_seed, public_key, sign
from headrace.client import Client, ClientError
from headrace.client.model import publisher_text
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


def test_a_publishers_login_is_renewed_by_its_key_alone_whoever_asks(stage):
    seed = new_user_seed()
    proof = proof_of("vision", "renewing", seed)
    stage.admin.create_publisher("renewing", project="vision", **proof)
    nobody = next(actor for actor in stage.actors if actor.name == "nobody")
    for place in PLACES:
        for name in ("renewing", "none"):
            path = f"/v1/publishers/{place}/{name}/credential"
            is_its_own = (place, name) == ("vision", "renewing")
            another = proof_of(place, name, new_user_seed())
            elsewhere = proof_of("labs", name, seed)
            unsigned = {**proof, "signature": another["signature"]}
            for body in (another, elsewhere, unsigned):
                status, answer = stage.ask(nobody, "post", path, body)
                assert (status, b"jwt" in answer) == (422, False), (path, answer)
            status, answer = stage.ask(nobody, "post", path, proof_of(place, name, seed))
            assert (status == 200, b"jwt" in answer) == (is_its_own, is_its_own), (path, answer)
    path = "/v1/publishers/vision/renewing/credential"
    for actor in stage.actors:  # no role makes up for the key
        body = proof_of("vision", "renewing", new_user_seed())
        status, answer = stage.ask(actor, "post", path, body)
        assert status in (422, 429), (actor, answer)
        assert b"jwt" not in answer


def proof_of(project, name, seed):
    at_s = int(time.time())
    signature = sign(seed, publisher_text(project, name, at_s))
    return {"public_key": public_key(seed), "at_s": at_s, "signature": signature}


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
