"""Users, roles and API tokens: what is given, and what cannot be."""

from __future__ import annotations

import pytest

from headrace.admission import people_rules
from headrace.admission.decide import DECIDER
from headrace.decider.testing import given
from headrace.events.people import (
    Account,
    ApiTokenCreated,
    ApiTokenRefused,
    ApiTokenRequested,
    ApiTokenRevoked,
    ApiTokenRevokeRequested,
    Grant,
    RoleGranted,
    RoleGrantRequested,
    RoleRefused,
    RoleRevoked,
    RoleRevokeRequested,
    UserRemoved,
    UserRemoveRequested,
    UserSet,
    UserSetRequested,
)
from headrace.events.queues import Listed, QueueDeleted

from .facts import decided, history, project, refusal

DIGEST = "a" * 64


def set_user(name="ada", **account):
    return UserSetRequested(user=name, account=Account(**account), by="root")


def grant(member="user:ada", role="researcher", scope="vision"):
    return RoleGrantRequested(member=member, grant=Grant(role=role, scope=scope))


def revoke(member="user:ada", role="researcher", scope="vision"):
    return RoleRevokeRequested(member=member, grant=Grant(role=role, scope=scope))


def token(token="t1", digest=DIGEST, user="ada", **more):
    return ApiTokenRequested(token=token, digest=digest, user=user, **more)


def test_a_user_is_created_then_updated_then_unchanged():
    run = history(set_user(groups=("vision-team",)))
    assert decided(run).change == "created"
    assert decided(run.given(set_user())).change == "updated"
    assert decided(run.given(set_user())).change == "unchanged"


def test_a_service_belongs_to_a_project_that_exists():
    assert isinstance(decided(history(set_user("service:vision/etl"))), UserSet)
    said = "refused: scope = visoin — is no department or project; did you mean vision?"
    assert refusal(history(set_user("service:visoin/etl"))) == said


def test_a_service_is_made_only_under_a_name_that_nothing_was_meant_for():
    etl = Listed(member="service:vision/etl", role="viewer")
    named = history(project("ads", members=(etl,)), set_user("service:vision/etl"))
    assert refusal(named) == (
        "refused: user = service:vision/etl — is given a role in ads; "
        "choose another name, or take that back first"
    )
    at_home = history(project(members=(etl,)), set_user("service:vision/etl"))
    assert isinstance(decided(at_home), UserSet)
    fleets = history(project("ads", members=(Listed(member="service:etl", role="viewer"),)))
    assert isinstance(decided(fleets.given(set_user("service:etl"))), UserSet)


def test_a_service_ends_with_its_project_and_is_nobodys_in_the_next_of_that_name():
    etl = "service:vision/etl"
    run = history(set_user(etl), grant(etl), token(user=etl))
    while run.turn():
        pass
    deleted, created = QueueDeleted(name="vision", queue_kind="project"), project()
    assert "is no service" in refusal(run.given(deleted, created, token("t2", "b" * 64, etl)))
    assert "is no service" in refusal(run.given(grant(etl)))
    assert decided(run.given(set_user(etl))).change == "created"
    assert "is no service" in refusal(history(UserRemoveRequested(user=etl)))


def test_a_role_is_given_once_and_taken_once():
    run = history(grant())
    assert decided(run).change == "created"
    assert decided(run.given(grant())).change == "unchanged"
    assert isinstance(decided(run.given(revoke())), RoleRevoked)
    assert refusal(run.given(revoke())).endswith("was not given to user:ada there")


def test_a_role_of_a_document_is_taken_in_the_document():
    run = history(project("ads", members=(Listed(member="user:ada", role="viewer"),)))
    said = refusal(run.given(revoke(role="viewer", scope="ads")))
    assert said.endswith("take it out of its members and apply it")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (grant(scope="nowhere"), "is no department or project"),
        (grant(role="admin"), "admin — is of the whole fleet; project-admin"),
        (grant(role="department-admin"), "is of a department; project-admin"),
        (grant("service:etl"), "is no service; headrace user set etl --service"),
        (grant("service:vision/etl"), "headrace user set etl --service -p vision"),
        (token(user="service:vision/etl"), "is no service; headrace user set etl"),
    ],
)
def test_a_role_that_cannot_be_had_is_refused_with_what_can(asked, said):
    run = history(asked)
    assert said in refusal(run)


def test_the_removed_get_nothing_until_they_are_set_again():
    run = history(grant(), UserRemoveRequested(user="ada"))
    run.turn(), run.turn()
    assert refusal(run.given(grant())).endswith("was removed; headrace user set ada")
    assert refusal(run.given(token())).endswith("was removed; headrace user set ada")
    assert isinstance(decided(run.given(set_user())), UserSet)
    assert isinstance(decided(run.given(grant())), RoleGranted)


def test_a_token_lasts_as_long_as_asked_and_is_revoked_by_its_id():
    run = history(token(lasts_s=60, scopes=("job.read",)))
    made = decided(run)
    assert isinstance(made, ApiTokenCreated)
    assert made.expires_at_us - made.created_at_us == 60_000_000
    assert decided(run.given(token(lasts_s=60, scopes=("job.read",)))).digest == DIGEST
    assert refusal(run.given(token(digest="b" * 64))).endswith("exists already")
    assert isinstance(decided(run.given(ApiTokenRevokeRequested(token="t1"))), ApiTokenRevoked)
    assert isinstance(decided(run.given(ApiTokenRevokeRequested(token="t1"))), ApiTokenRefused)


def test_tokens_of_one_user_are_bounded(monkeypatch):
    monkeypatch.setattr(people_rules, "TOKENS_PER_USER_MAX", 1)
    run = history(token())
    assert isinstance(decided(run), ApiTokenCreated)
    assert "ada has 1 tokens already" in refusal(run.given(token("t2", "b" * 64)))
    assert isinstance(decided(run.given(token("t3", "c" * 64, "bob"))), ApiTokenCreated)


def test_requests_of_one_turn_are_judged_one_after_the_other():
    run = given(DECIDER, project(), grant(), revoke(), UserRemoveRequested(user="ada"), grant())
    kinds = []
    while drafts := run.turn():
        kinds += [type(draft.event) for draft in drafts]
    assert kinds == [RoleGranted, RoleRevoked, UserRemoved, RoleRefused]
