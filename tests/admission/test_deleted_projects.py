"""Projects that were deleted: what ends with them, and jobs that were let in meanwhile."""

from headrace.decider.testing import given
from headrace.events.access import (
    ProjectErased,
    ProjectEraseRequested,
    PublisherCreated,
    PublisherDeleted,
    SecretSet,
)
from headrace.events.jobs import JobAdmitted, JobCancelling
from headrace.events.queues import QueueDeleted

from .facts import DECIDER, gang, history, project, refusal, requested

GONE = QueueDeleted(name="vision", queue_kind="project")


def let_in(job="a-1"):
    return JobAdmitted(
        job=job, project="vision", name="a", user="ada", gang=gang(), requested_at=1, priority=40
    )


def test_a_project_that_was_deleted_takes_no_jobs():
    assert "project = vision — does not exist" in refusal(history(GONE, requested()))


def test_its_secrets_are_not_those_of_one_that_is_made_anew():
    run = history(SecretSet(project="vision", name="KEY", version="v1"), GONE, project())
    assert "has no secret of this name" in refusal(run.given(requested(secrets=("KEY",))))


def test_a_job_that_was_let_in_while_its_project_was_deleted_ends():
    for events in ((let_in(), GONE), (GONE, let_in())):
        run = given(DECIDER, project(), *events)
        (draft,) = run.turn()
        assert draft.event == JobCancelling(job="a-1", project="vision", reason="project-deleted")
        assert run.turn() == []


def test_what_its_jobs_ran_can_still_be_erased():
    run = history(GONE, ProjectEraseRequested(project="vision", user="ada"))
    (draft,) = run.turn()
    assert draft.event == ProjectErased(project="vision")


def test_its_publishers_are_let_in_no_more():
    created = PublisherCreated(project="vision", name="etl", public_key="UA")
    run = history(created, GONE)
    (draft,) = run.turn()
    assert draft.event == PublisherDeleted(project="vision", name="etl", public_key="UA")
    assert draft.causation == len(run.entries) - 1
    assert run.turn() == []


async def test_its_webhooks_are_told_no_more(platform):
    hook = {"type": "webhook", "name": "w", "project": "vision", "url": "https://h.example.com/x"}
    assert (await platform.ask("webhook.apply", hook | {"events": ["job.finished"]}))["accepted"]
    assert platform.host.state.hooks_by_name()
    rounds = platform.host.service.shell._courier._rounds
    await platform.until(lambda: bool(rounds))
    await platform.append(GONE)
    await platform.until(lambda: not rounds)
    assert platform.host.state.hooks_by_name() == {}
