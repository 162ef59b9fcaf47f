"""Departments and projects that are deleted: when they can be, and what is left behind."""

import msgspec
import pytest

from headrace.decider.testing import given
from headrace.events import Refusal
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobAdmitted, JobEligible, JobFinished, JobHeld
from headrace.events.queues import (
    Queue,
    QueueApplyRequested,
    QueueConfigured,
    QueueDeleted,
    QueueDeleteRequested,
)
from headrace.quota.decide import DECIDER
from headrace.quota.requests import delete_queue, names_of
from headrace.runtime.service import Request
from headrace.runtime.suggestions import Suggestions


def there(name="vision", kind="project", parent=""):
    queue = Queue(queue=name, kind=kind, parent=parent)
    return QueueConfigured(name=name, queue=queue, change="created")


def asked(name="vision", kind="project"):
    return QueueDeleteRequested(name=name, queue_kind=kind, user="ada")


def admitted(job="a-1", project="vision", **fields):
    gang = Gang(nodes=1, accelerators=(Accelerator(milli=1000),))
    return JobAdmitted(
        job=job, project=project, name="a", user="ada", gang=gang, requested_at=1, priority=40,
        **fields,
    )  # fmt: skip


def answer(run):
    (draft,) = (d for d in run.turn() if getattr(d.event, "name", ""))
    return draft.event


def test_a_project_without_jobs_is_deleted_and_who_did_it_is_on_record():
    run = given(DECIDER, there(), asked())
    (draft,) = (d for d in run.turn() if isinstance(d.event, QueueDeleted))
    assert draft.event == QueueDeleted(name="vision", queue_kind="project")
    assert (draft.causation, draft.actor) == (2, "ada")
    assert run.state.queues == {}


@pytest.mark.parametrize(
    ("history", "kind", "line"),
    [
        (
            [there(), admitted(), admitted("b-1", tasks=3)],
            "project",
            "2 jobs of it have not ended; cancel or wait: headrace ps --project vision",
        ),
        (
            [there("visions")],
            "project",
            "there is no project of this name; did you mean visions?",
        ),
        (
            [there("vision", "department"), there("ads", parent="vision")],
            "department",
            "ads belongs to it; delete or move them first",
        ),
        (
            [there("vision", "department")],
            "project",
            "there is no project of this name; it is a department",
        ),
    ],
)
def test_what_is_in_use_or_unknown_is_refused_with_what_stands_in_the_way(history, kind, line):
    run = given(DECIDER, *history, asked(kind=kind))
    suggestions = Suggestions(names_of, lambda: 0.0)
    said = str(suggestions.complete(answer(run).refusal, run.state, "_fleet"))
    assert said == f"refused: {kind} = vision — {line}"


def test_it_can_go_once_its_jobs_have_ended():
    run = given(DECIDER, there(), admitted())
    run.settled()
    run.given(JobFinished(job="a-1", project="vision", outcome="succeeded"), asked())
    assert isinstance(answer(run), QueueDeleted)


def test_requests_are_answered_in_order_each_on_the_tree_that_the_ones_before_left():
    again = QueueApplyRequested(name="vision", queue=there().queue, user="ada")
    run = given(DECIDER, there(), asked(), asked(), again)
    kinds = [type(d.event).__name__ for d in run.turn() if getattr(d.event, "name", "")]
    assert kinds == ["QueueDeleted", "QueueRefused", "QueueConfigured"]


def test_a_job_let_in_while_its_project_was_deleted_waits_until_it_is_made_anew():
    run = given(DECIDER, there(), asked())
    run.turn()
    run.given(admitted())
    (held,) = (d.event for d in run.turn() if isinstance(d.event, JobHeld))
    assert held.reason == "its project was deleted"
    run.given(there())
    assert JobEligible(job="a-1", project="vision") in [d.event for d in run.turn()]


async def received(body, project="fleet"):
    data = msgspec.json.encode(body)
    request = Request(verb="queue.delete", project=project, key="k", body=data, actor="ada")
    return await delete_queue(request, None)


async def test_a_request_becomes_a_fact():
    assert await received({"name": "vision", "kind": "project"}) == asked()


@pytest.mark.parametrize(
    ("body", "project"),
    [
        ({"name": "vision", "kind": "pool"}, "fleet"),
        ({"name": "Vision!", "kind": "project"}, "fleet"),
        ({"name": "vision"}, "fleet"),
        ({"name": "vision", "kind": "project"}, "vision"),
    ],
)
async def test_what_is_not_understood_is_refused(body, project):
    assert isinstance(await received(body, project), Refusal)
