"""Secrets, publishers, erasure."""

import pytest

from headrace.admission.state import SETTINGS
from headrace.bus.credentials import (
    account_jwt,
    new_account_seed,
    new_operator_seed,
    public_key,
)
from headrace.bus.interface import PAYLOAD_BYTES_MAX
from headrace.events.access import (
    ProjectErased,
    ProjectEraseRefused,
    ProjectEraseRequested,
    ProjectKeysDropped,
    PublisherCreated,
    PublisherDeleted,
    PublisherDeleteRequested,
    PublisherRefused,
    PublisherRequested,
    SecretRefused,
    SecretSet,
    SecretSetRequested,
)
from headrace.events.jobs import JobAdmitted, JobRefused
from headrace.events.members import MemberAdmitted
from headrace.events.queues import Queue, QueueConfigured

from .facts import decided, finished, history, refusal, requested

LASTS_US = SETTINGS["publisher_lasts_s"] * 1_000_000


def set_secret(name="A", project="vision", version="v1"):
    return SecretSetRequested(project=project, name=name, version=version)


def publisher(name="etl", key="UA", project="vision", **fields):
    return PublisherRequested(project=project, name=name, public_key=key, **fields)


def project_of(name):
    return QueueConfigured(name=name, queue=Queue(queue=name, kind="project"), change="created")


def erase(project="vision"):
    return ProjectEraseRequested(project=project)


def test_a_secret_is_set_and_jobs_may_name_it():
    run = history(set_secret())
    assert decided(run) == SecretSet(project="vision", name="A", version="v1")
    assert isinstance(decided(run.given(requested(secrets=("A",)))), JobAdmitted)


def test_a_secret_set_in_the_same_turn_counts_for_the_job_after_it():
    run = history(set_secret(), requested(secrets=("A",)))
    assert [type(d.event) for d in run.turn()] == [SecretSet, JobAdmitted]


def test_a_job_before_the_secret_does_not_get_it():
    run = history(requested(secrets=("A",)), set_secret())
    assert [type(d.event) for d in run.turn()] == [JobRefused, SecretSet]


def test_a_secret_of_an_unknown_project_is_refused():
    assert isinstance(decided(history(set_secret(project="visoin"))), SecretRefused)


def test_a_publisher_is_created_once_under_its_key():
    run = history(publisher())
    created = decided(run)
    assert (created.name, created.public_key) == ("etl", "UA")
    assert created.expires_at_us == run.now_us + LASTS_US
    assert isinstance(decided(run.given(publisher())), PublisherCreated)
    run.given(publisher(key="UB"))
    said = "refused: publisher = etl — exists with another key; choose another name"
    assert refusal(run) == said


def test_two_keys_for_one_name_in_the_same_turn_are_not_both_taken():
    run = history(publisher(key="UA"), publisher(key="UB"))
    assert [type(d.event) for d in run.turn()] == [PublisherCreated, PublisherRefused]


def test_a_deleted_publishers_key_is_refused_until_its_login_has_expired_and_its_name_is_free():
    run = history(publisher(), publisher(name="eval", key="UE"))
    run.turn()
    delete = PublisherDeleteRequested(project="vision", name="etl")
    run.given(delete, delete)
    assert [type(d.event) for d in run.turn()] == [PublisherDeleted, PublisherRefused]
    assert list(run.state.deleted) == ["UA"]
    run.given(publisher(name="new", key="UA"))
    said = "refused: public_key — is that of a publisher that was deleted; make another key"
    assert refusal(run) == said
    assert isinstance(decided(run.given(publisher(key="UB"))), PublisherCreated)
    assert "UA" in run.state.deleted, "its login would still be good"
    run.now_us += LASTS_US
    run.given(PublisherDeleteRequested(project="vision", name="eval"))
    run.turn()
    assert run.state.deleted == {}, "the list is bounded: what has expired is refused anyway"


@pytest.mark.parametrize("project", ["vision", "ads"])
def test_one_key_is_one_publishers(project):
    run = history(project_of("ads"), publisher(), publisher(name="b", project=project))
    assert [type(d.event) for d in run.turn()] == [PublisherCreated, PublisherRefused]
    run.given(publisher(name="b", project=project))
    holder = "publisher vision/etl" if project == "vision" else "a publisher of another project"
    assert refusal(run) == f"refused: public_key — is that of {holder}; make another key"


def test_a_nodes_key_is_no_publishers_so_that_deleting_one_locks_no_node_out():
    admitted = MemberAdmitted(node="n1", public_key="UN", box_key="b")
    run = history(admitted, publisher(key="UN"))
    assert refusal(run) == "refused: public_key — is that of node n1; make another key"
    run.given(PublisherDeleteRequested(project="vision", name="etl"))
    run.turn()
    assert run.state.deleted == {}


def test_a_login_is_renewed_with_its_own_key_and_only_while_there_is_such_a_publisher():
    run = history(publisher())
    run.turn()
    run.now_us += LASTS_US // 2
    renewed = decided(run.given(publisher(renews=True)))
    assert renewed.expires_at_us == run.now_us + LASTS_US
    run.given(publisher(key="UB", renews=True))
    assert "exists with another key" in refusal(run)
    run.given(publisher(name="other", key="UC", renews=True))
    assert "does not exist" in refusal(run)


def test_a_project_that_makes_and_deletes_publishers_comes_to_its_own_limit_and_to_no_others():
    run = history(project_of("ads"))
    limit = SETTINGS["publishers_per_project_max"]
    for number in range(limit):
        run.given(publisher(name=f"p{number}", key=f"U{number}"))
        run.given(PublisherDeleteRequested(project="vision", name=f"p{number}"))
    made = [type(draft.event) for _ in range(3) for draft in run.turn()]
    assert made.count(PublisherCreated) == made.count(PublisherDeleted) == limit
    run.given(publisher(name="more", key="UM"))
    assert "at most 100 publishers, those deleted in the last 30 days included" in refusal(run)
    assert isinstance(decided(run.given(publisher(project="ads", key="UX"))), PublisherCreated)
    run.given(PublisherDeleteRequested(project="ads", name="etl"))
    assert isinstance(decided(run), PublisherDeleted), "who is to be locked out can be"


def test_a_project_has_so_many_durable_publishers_and_a_deleted_one_makes_room():
    run, limit = history(), SETTINGS["durable_publishers_per_project_max"]
    run.now_us = 1
    run.given(*(publisher(name=f"p{n}", key=f"U{n}", durable=True) for n in range(limit)))
    made = [draft.event for draft in run.turn()]
    assert [event.durable_since_us for event in made] == [1] * limit
    run.given(publisher(name="more", key="UM", durable=True))
    assert f"a project has at most {limit} durable publishers" in refusal(run)
    assert isinstance(decided(run.given(publisher(name="plain", key="UP"))), PublisherCreated)
    run.given(PublisherDeleteRequested(project="vision", name="p0"))
    run.turn()
    run.given(publisher(name="more", key="UM", durable=True))
    assert isinstance(decided(run), PublisherCreated)


def test_the_durable_publishers_of_all_projects_have_a_limit(monkeypatch):
    monkeypatch.setitem(SETTINGS, "durable_publishers_max", 1)
    run = history(project_of("ads"), publisher(durable=True))
    run.now_us = 1
    run.turn()
    run.given(publisher(project="ads", key="UB", durable=True))
    assert "the platform has at most 1 durable publishers" in refusal(run)


def test_a_renewed_login_keeps_the_durable_place_and_a_plain_one_gets_none():
    run = history(publisher(durable=True), publisher(name="plain", key="UP"))
    run.now_us = 1
    first, plain = [draft.event for draft in run.turn()]
    run.now_us += LASTS_US
    again = decided(run.given(publisher(renews=True)))
    assert again.durable_since_us == first.durable_since_us > 0
    renewed = decided(run.given(publisher(name="plain", key="UP", renews=True)))
    assert plain.durable_since_us == renewed.durable_since_us == 0


def test_who_deletes_a_publisher_that_is_none_learns_which_there_are():
    run = history(publisher())
    run.turn()
    run.given(PublisherDeleteRequested(project="vision", name="elt"))
    assert refusal(run) == "refused: publisher = elt — does not exist; did you mean etl?"


def test_all_keys_that_are_refused_go_into_one_message():
    most = SETTINGS["publishers_max"] + SETTINGS["revoked_max"]
    keys = [f"U{number:055}" for number in range(most)]
    seeds = new_operator_seed(), public_key(new_account_seed())
    jwt = account_jwt(*seeds, "HEADRACE", streams=True, revoked=keys)
    assert len(jwt) < PAYLOAD_BYTES_MAX


def test_a_project_is_erased_and_forgets_its_secrets():
    run = history(set_secret())
    run.turn()
    assert decided(run.given(erase())) == ProjectErased(project="vision")
    assert run.state.secrets == {}


def test_a_project_with_live_jobs_is_not_erased():
    run = history(requested())
    run.turn()
    said = "refused: project = vision — 1 of its jobs have not ended; cancel them first"
    assert refusal(run.given(erase())) == said
    run.given(finished())
    assert isinstance(decided(run.given(erase())), ProjectErased)


def test_a_job_admitted_in_the_same_turn_is_alive():
    run = history(requested(), erase())
    assert [type(d.event) for d in run.turn()] == [JobAdmitted, ProjectEraseRefused]


def test_what_was_sealed_before_the_keys_are_dropped_is_not_admitted():
    run = history(erase(), requested(), set_secret())
    assert [type(d.event) for d in run.turn()] == [ProjectErased, JobRefused, SecretRefused]
    assert refusal(run.given(requested("a-2"))) == (
        "refused: project = vision — is being erased; ask again in a moment"
    )


def test_an_erased_project_goes_on_under_new_keys():
    run = history(erase())
    run.turn()
    run.given(ProjectKeysDropped(project="vision", erased_at=len(run.entries)))
    assert run.state.erasing == {}
    assert isinstance(decided(run.given(requested())), JobAdmitted)


def test_keys_dropped_for_an_earlier_erasure_do_not_end_a_later_one():
    run = history(erase())
    run.turn()
    first = len(run.entries)
    run.given(erase())
    run.turn()
    run.given(ProjectKeysDropped(project="vision", erased_at=first))
    assert list(run.state.erasing) == ["vision"]


def test_an_unknown_project_cannot_be_erased():
    assert isinstance(decided(history(erase("nobody"))), ProjectEraseRefused)
