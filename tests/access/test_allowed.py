"""Who may do what: every role, verb and scope against the table as people read it."""

from __future__ import annotations

import itertools

import pytest

from headrace.access.allowed import (
    WHOLE_FLEET,
    Allowed,
    Scope,
    Subject,
    allowed,
    allowed_to_give,
    refused_everywhere,
)
from headrace.access.table import MAY, NOUNS, REACHES, ROLES, VERBS
from headrace.events import Refusal
from headrace.events.people import Grant

VISION = Scope(("vision", "research"))
RESEARCH = Scope(("research",))
BIO = Scope(("bio", "labs"))
SCOPES = {"": WHOLE_FLEET, "research": RESEARCH, "vision": VISION}


def subject(*grants, name="ada", **more):
    given = tuple(Grant(role=role, scope=scope) for role, scope in grants)
    return Subject(name=name, grants=given, **more)


def may(who, verb, noun, scope, owner=""):
    return isinstance(allowed(who, verb, noun, scope, owner), Allowed)


def is_inside(given, asked):
    """Whether a role given in the one scope holds in the other, written out by hand."""
    return (
        given
        in {"": ("",), "research": ("", "research"), "vision": ("", "research", "vision")}[asked]
    )


@pytest.mark.parametrize(("noun", "verb"), list(MAY))
def test_a_role_does_what_the_table_says_in_its_scope_and_nowhere_else(noun, verb):
    for role, given, asked in itertools.product(ROLES, SCOPES, SCOPES):
        who, reach = subject((role, given)), MAY[noun, verb].get(role, "")
        inside = is_inside(given, asked)
        of_others = reach == "any" or (reach == "yes" and inside)
        its_own = of_others or reach == "mine" or (reach == "own" and inside)
        assert may(who, verb, noun, SCOPES[asked], "bob") is of_others, (role, given, asked)
        assert may(who, verb, noun, SCOPES[asked], "ada") is its_own, (role, given, asked)


def test_what_the_table_does_not_name_nobody_may():
    for noun, verb in itertools.product(NOUNS, VERBS):
        if (noun, verb) not in MAY:
            assert not may(subject(("admin", "")), verb, noun, WHOLE_FLEET, "ada")
    assert not may(subject(("admin", "")), "read", "secret", VISION)


def test_who_has_no_role_or_one_that_is_unknown_may_nothing():
    for noun, verb in MAY:
        for who in (subject(), subject(("king", "")), subject(("admin", "labs"))):
            assert not may(who, verb, noun, VISION) or MAY[noun, verb]["admin"] == "any"


def test_every_cell_of_the_table_is_one_of_the_words_it_explains():
    cells = {cell for row in MAY.values() for cell in row.values()}
    assert cells <= set(REACHES)
    assert all("admin" in row for row in MAY.values())


def test_a_project_next_door_is_as_far_as_any_other():
    who = subject(("project-admin", "vision"), ("researcher", "research"))
    assert may(who, "submit", "job", VISION)
    assert not may(who, "submit", "job", BIO)
    assert not may(who, "read", "job", Scope(("vision2", "labs")))


def test_a_token_that_may_submit_may_follow_its_owners_jobs_and_no_others():
    submits = subject(("researcher", "vision"), scopes=("job.submit",))
    for noun in ("job", "logs", "event"):
        assert may(submits, "read", noun, VISION, "ada")
        assert not may(submits, "read", noun, VISION, "bob")
        assert not may(submits, "read", noun, VISION)
        assert refused_everywhere(submits, "read", noun) is None
    assert not may(submits, "cancel", "job", VISION, "ada")
    assert not may(submits, "read", "secret", VISION, "ada")
    elsewhere = subject(("researcher", "vision"), scopes=("job.submit",), projects=("ads",))
    assert not may(elsewhere, "read", "job", VISION, "ada")


def test_a_token_narrows_and_never_widens():
    narrow = subject(("researcher", "vision"), scopes=("job.read", "logs.*", "*.cancel"))
    assert may(narrow, "read", "job", VISION)
    assert may(narrow, "read", "logs", VISION)
    assert may(narrow, "cancel", "job", VISION, "ada")
    assert not may(narrow, "submit", "job", VISION)
    assert not may(subject(("viewer", "vision"), scopes=("*",)), "submit", "job", VISION)
    elsewhere = subject(("admin", ""), projects=("bio",))
    assert may(elsewhere, "submit", "job", BIO)
    assert not may(elsewhere, "submit", "job", VISION)
    assert not may(elsewhere, "apply", "pool", WHOLE_FLEET)
    assert refused_everywhere(narrow, "read", "job") is None
    assert "good for job.read" in str(refused_everywhere(narrow, "submit", "job"))


def test_a_service_that_acts_for_somebody_may_what_both_may():
    service = subject(("researcher", "vision"), name="airflow")
    ada = subject(("researcher", "vision"), ("researcher", "bio"), via=service)
    assert may(ada, "submit", "job", VISION)
    assert may(ada, "cancel", "job", VISION, "ada")
    assert not may(ada, "cancel", "job", VISION, "airflow")
    assert not may(ada, "submit", "job", BIO)
    assert not may(subject(via=service), "read", "job", VISION)
    assert ada.actor == "ada via airflow"


@pytest.mark.parametrize("giver", ROLES)
def test_nobody_gives_a_role_above_their_own(giver):
    for given, scope in itertools.product(ROLES, SCOPES.values()):
        judged = allowed_to_give(subject((giver, "")), Grant(role=given), scope)
        may_grant = giver in MAY["role", "grant"] and ROLES.index(given) >= ROLES.index(giver)
        assert isinstance(judged, Allowed) is may_grant


def test_a_refusal_says_who_one_is_and_who_may():
    refusal = allowed(subject(("viewer", "vision")), "submit", "job", VISION)
    assert isinstance(refusal, Refusal)
    assert str(refusal) == (
        "refused: access = job.submit — ada is viewer of vision; "
        "admin or department-admin or project-admin or researcher or publisher of vision may"
    )
    stranger = allowed(subject(("viewer", "bio")), "read", "job", VISION)
    assert "ada is without a role in vision" in str(stranger)


def test_a_refusal_of_something_everywhere_says_which_roles_one_has():
    who = subject(("viewer", "vision"), ("viewer", "bio"))
    assert refused_everywhere(who, "read", "job") is None
    assert str(refused_everywhere(who, "submit", "job")) == (
        "refused: access = job.submit — ada is viewer of bio and viewer of vision; "
        "admin or department-admin or project-admin or researcher or publisher may"
    )
    assert str(refused_everywhere(who, "change", "node")).endswith("admin of the whole fleet may")
    service = subject(("viewer", "vision"), name="airflow")
    acting = subject(("admin", ""), via=service)
    assert "airflow is viewer of vision" in str(refused_everywhere(acting, "submit", "job"))


def test_nobody_gives_a_role_that_is_none():
    judged = allowed_to_give(subject(("admin", "")), Grant(role="king"), Scope())
    assert str(judged).startswith("refused: role = king — is no role; ")
