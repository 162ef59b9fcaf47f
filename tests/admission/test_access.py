"""Secrets, publishers, erasure."""

from headrace.admission import access_rules
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

from .facts import decided, finished, history, refusal, requested


def set_secret(name="A", project="vision", version="v1"):
    return SecretSetRequested(project=project, name=name, version=version)


def publisher(name="etl", key="UA", project="vision"):
    return PublisherRequested(project=project, name=name, public_key=key)


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
    created = PublisherCreated(project="vision", name="etl", public_key="UA")
    assert decided(run) == created
    assert decided(run.given(publisher())) == created
    run.given(publisher(key="UB"))
    said = "refused: publisher = etl — exists with another key; choose another name"
    assert refusal(run) == said


def test_two_keys_for_one_name_in_the_same_turn_are_not_both_taken():
    run = history(publisher(key="UA"), publisher(key="UB"))
    assert [type(d.event) for d in run.turn()] == [PublisherCreated, PublisherRefused]


def test_a_deleted_publishers_key_is_refused_for_ever_and_its_name_is_free():
    run = history(publisher(), publisher(name="eval", key="UE"))
    run.turn()
    delete = PublisherDeleteRequested(project="vision", name="etl")
    gone = PublisherDeleted(project="vision", name="etl", public_key="UA")
    run.given(delete, delete)
    assert [type(d.event) for d in run.turn()] == [PublisherDeleted, PublisherRefused]
    assert run.state.deleted == {"UA": "vision"}
    run.given(publisher(name="new", key="UA"))
    said = "refused: public_key — is of a publisher that was deleted; make another key"
    assert refusal(run) == said
    created = PublisherCreated(project="vision", name="etl", public_key="UB")
    assert decided(run.given(publisher(key="UB"))) == created
    assert gone.public_key in run.state.deleted, "its login would still be good"


def test_who_deletes_a_publisher_that_is_none_learns_which_there_are():
    run = history(publisher())
    run.turn()
    run.given(PublisherDeleteRequested(project="vision", name="elt"))
    assert refusal(run) == "refused: publisher = elt — does not exist; did you mean etl?"


def test_the_bus_is_not_told_more_keys_than_it_can_be(monkeypatch):
    monkeypatch.setattr(access_rules, "DELETED_MAX", 1)
    run = history(publisher(), publisher(name="eval", key="UE"))
    run.turn()
    run.given(PublisherDeleteRequested(project="vision", name="etl"))
    run.turn()
    run.given(PublisherDeleteRequested(project="vision", name="eval"))
    assert "1 have been deleted" in refusal(run)


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
