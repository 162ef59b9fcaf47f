"""Trees that contradict themselves: refused when applied, and harmless when they are there anyway."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.decider.testing import given as history_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobAdmitted
from headrace.events.queues import (
    Queue,
    QueueApplyRequested,
    QueueConfigured,
    QueueDeleted,
    QueueDeleteRequested,
)
from headrace.quota.decide import DECIDER

names = st.sampled_from(("a", "b", "c", "d"))
queues = st.builds(
    Queue,
    queue=names,
    kind=st.sampled_from(("department", "department", "project", "club")),
    parent=st.sampled_from(("", "a", "b", "c", "d", "nobody")),
    quota_milli=st.sampled_from((0, -1, -7, 9_000_000)),
    limit_milli=st.sampled_from((-1, -7, 0, 4000)),
    weight=st.integers(-1, 2),
    evictions_max=st.integers(-1, 1),
    evictions_per_us=st.integers(-1, 1),
)


def requested(queue):
    return QueueApplyRequested(name=queue.queue, queue=queue, user="ada")


deletions = st.builds(
    QueueDeleteRequested, name=names, queue_kind=st.sampled_from(("department", "project"))
)


@given(asked=st.lists(st.one_of(queues.map(requested), deletions), max_size=12))
@settings(max_examples=150, deadline=None)
def test_every_request_is_answered_and_what_stands_is_a_tree(asked):
    run = history_of(DECIDER, *asked)
    answers = [draft.event for draft in run.turn() if hasattr(draft.event, "name")]
    assert [event.name for event in answers] == [request.name for request in asked]
    for queue in run.state.queues.values():
        assert not queue.parent or run.state.queues[queue.parent].kind == "department"
    for event in answers:
        if not isinstance(event, QueueConfigured | QueueDeleted):
            assert event.refusal.field
            assert event.refusal.rule
    for name in run.state.queues:
        seen, above = [], name
        while above:
            assert above not in seen
            seen.append(above)
            above = run.state.queues[above].parent


@given(there=st.lists(queues, max_size=6), firm=st.booleans())
@settings(max_examples=150, deadline=None)
def test_quota_goes_on_deciding_with_a_tree_that_is_none(there, firm):
    gone = QueueDeleted(name="a", queue_kind="project")  # under a job of it
    configured = [QueueConfigured(name=q.queue, queue=q, change="created") for q in there]
    jobs = [
        JobAdmitted(
            job=f"j{number}", project=project, name="j", user="ada", requested_at=1,
            gang=Gang(nodes=nodes, accelerators=(Accelerator(milli=milli),)),
            preemptible=not firm, priority=40,
        )
        for number, (project, nodes, milli) in enumerate(
            (("a", 1, 1000), ("b", -1, 1500), ("nobody", 0, -1000))
        )
    ]  # fmt: skip
    run = history_of(DECIDER, *configured, *jobs, gone)
    for now_us in (0, 10**10):
        run.at(now_us).settled()
