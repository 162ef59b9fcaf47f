"""Who there is, folded from the log."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.architecture.sources import service_names

from headrace.access.directory import LISTENS_TO, Directory, evolve
from headrace.access.names import member_refusal, user_refusal
from headrace.events.people import (
    Account,
    ApiTokenCreated,
    ApiTokenRevoked,
    Grant,
    RoleGranted,
    RoleRevoked,
    UserRemoved,
    UserSet,
)
from headrace.events.queues import Listed, Queue, QueueConfigured, QueueDeleted

VIEWER = Grant(role="viewer", scope="vision")


def folded(*events):
    directory = Directory()
    for event in events:
        evolve(directory, event)
    return directory


def user(name="ada", **account):
    return UserSet(user=name, account=Account(**account), change="created")


def granted(member="user:ada", grant=VIEWER):
    return RoleGranted(member=member, grant=grant, change="created")


def token(digest="d1", user="ada", at_us=1, ends_us=0):
    return ApiTokenCreated(
        token=f"t-{digest}", digest=digest, user=user, created_at_us=at_us, expires_at_us=ends_us
    )


def queue(name="vision", parent="research", members=()):
    configured = Queue(queue=name, kind="project", parent=parent, members=tuple(members))
    return QueueConfigured(name=name, queue=configured, change="updated")


def grants(directory, name="ada", groups=()):
    return directory.subject(name, groups).grants


def test_a_role_is_had_from_its_grant_to_its_revocation():
    assert grants(folded(granted(), granted())) == (VIEWER,)
    assert grants(folded(granted(), RoleRevoked(member="user:ada", grant=VIEWER))) == ()


def test_members_of_a_document_have_their_roles_until_a_document_says_otherwise():
    listed = queue(members=[Listed(member="group:vision-team", role="researcher")])
    researcher = (Grant(role="researcher", scope="vision"),)
    assert grants(folded(listed), groups=("vision-team",)) == researcher
    assert grants(folded(listed, user(groups=("vision-team",)))) == researcher
    assert grants(folded(listed, queue()), groups=("vision-team",)) == ()


def test_a_group_of_an_identity_provider_gives_a_service_nothing_of_a_person():
    service = "service:vision/ada"
    found = folded(user("ada"), granted(), granted("group:g"), user(service)).subject(
        service, ("g",)
    )
    assert found.grants == ()


def test_a_user_who_was_removed_is_nobody_until_set_again():
    gone = (user(), granted(), token(), UserRemoved(user="ada"))
    assert folded(*gone).subject("ada") is None
    assert folded(*gone).tokens == {}
    again = folded(*gone, user())
    assert again.subject("ada").grants == ()


def test_a_scope_is_a_project_and_all_above_it_even_in_a_circle():
    directory = folded(queue(), queue("research", "all"), queue("all", ""))
    assert directory.scope("vision").path == ("vision", "research", "all")
    circle = folded(queue("a", "b"), queue("b", "a"))
    assert len(circle.scope("a").path) <= 32


def test_expired_tokens_are_forgotten_with_the_next_one():
    directory = folded(token("d1", ends_us=5), token("d2", at_us=9), token("d3", "bob", ends_us=5))
    assert list(directory.tokens) == ["d2", "d3"]
    assert {user: len(own) for user, own in directory.tokens_of.items()} == {"ada": 1, "bob": 1}


NAMES = ("a", "service:p/b")
events = st.one_of(
    st.builds(user, st.sampled_from(NAMES)),
    st.builds(UserRemoved, user=st.sampled_from(NAMES)),
    st.builds(granted, st.sampled_from(("user:a", "service:p/b", "group:g"))),
    st.builds(RoleRevoked, member=st.sampled_from(("user:a", "group:g")), grant=st.just(VIEWER)),
    st.builds(token, st.sampled_from("xyz"), st.sampled_from(NAMES), st.integers(1, 9)),
    st.builds(ApiTokenRevoked, token=st.sampled_from(("t-x", "t-y", "t-q"))),
    st.builds(queue, st.sampled_from("pq"), st.sampled_from(("", "p", "q"))),
    st.builds(QueueDeleted, name=st.sampled_from("pq"), queue_kind=st.just("project")),
)


@given(st.lists(events, max_size=30))
def test_whatever_the_log_says_counts_and_indexes_agree(history):
    directory = folded(*history)
    assert {t.token: t.digest for t in directory.tokens.values()} == directory.digests
    assert sum(map(len, directory.tokens_of.values())) == len(directory.tokens)
    assert not directory.users.keys() & directory.removed.keys()
    assert directory.version == sum(isinstance(event, LISTENS_TO) for event in history)
    kept = msgspec.json.decode(msgspec.json.encode(directory), type=Directory)
    assert kept == directory


def test_the_roles_in_a_project_end_with_it():
    listed = Queue(
        queue="vision", kind="project", members=(Listed(member="user:bob", role="researcher"),)
    )
    elsewhere = Grant(role="viewer", scope="ads")
    directory = folded(
        QueueConfigured(name="vision", queue=listed, change="created"),
        user(), granted(), granted(grant=elsewhere),
        QueueDeleted(name="vision", queue_kind="project"),
    )  # fmt: skip
    assert [*directory.grants("user:ada")] == [elsewhere]
    assert [*directory.grants("user:bob")] == []
    assert "vision" not in directory.parents


@pytest.mark.parametrize("name", [*service_names(), "admin", "Admin", "machine"])
def test_no_person_is_called_as_a_part_of_the_platform(name):
    assert user_refusal(name) is not None
    assert user_refusal(f"service:vision/{name.lower()}") is None


@pytest.mark.parametrize(
    "wrong",
    ["service:", "service:/etl", "service:vision/", "service:a/b/c", "service:Vision/etl",
     "service:../etl", "service:vision/.etl", "service:vision/e tl", "service:vision/etl\n",
     "vision/etl", "user:ada", "ada:x", "аda", "ada\n", "", "service:vision/" + "e" * 65],
)  # fmt: skip
def test_what_is_no_name_names_nobody(wrong):
    assert user_refusal(wrong) is not None
    assert member_refusal(wrong if wrong.startswith("service:") else f"user:{wrong}") is not None


def test_a_persons_roles_for_a_service_are_those_in_its_home():
    directory = folded(
        queue(), queue("ads", "research"), queue("research", ""),
        granted(grant=Grant(role="admin")), granted(grant=Grant(role="viewer", scope="research")),
        granted(grant=Grant(role="researcher", scope="ads")),
    )  # fmt: skip
    admin, viewer = (Grant(role=role, scope="vision") for role in ("admin", "viewer"))
    assert directory.within("ada", "vision").grants == (admin, viewer)
    assert Grant(role="researcher", scope="ads") in directory.within("ada", "research").grants
    assert len(directory.within("ada", "").grants) == 3
    assert directory.within("bob", "vision") is None
