"""Who may compete, what the tree may look like, and the shares that people see."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.events import Entry, Header
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobAdmitted, JobEligible, JobFinished, JobHeld
from headrace.events.nodes import Device, NodeJoined
from headrace.events.queues import (
    Queue,
    QueueApplyRequested,
    QueueConfigured,
    QueueRefused,
    SharesDivided,
)
from headrace.quota.decide import DECIDER
from headrace.quota.state import HELD_GROUP, HELD_QUOTA


class History:
    """A log in memory in front of quota's decider."""

    def __init__(self):
        self.state = DECIDER.initial()
        self.position = 0
        self.now_us = 10_000_000

    def given(self, *events, causation=0):
        for event in events:
            self.position += 1
            self.now_us += 10
            header = Header(causation=causation)
            DECIDER.evolve(
                self.state,
                Entry(
                    position=self.position,
                    recorded_at_us=self.now_us,
                    header=header,
                    event=event,
                ),
            )

    def settled(self):
        events = []
        while drafts := DECIDER.decide(self.state, self.now_us):
            for draft in drafts:
                self.given(draft.event, causation=draft.causation)
                events.append(draft.event)
        return events

    def decided(self):
        """As `settled`, without the shares."""
        return [event for event in self.settled() if not isinstance(event, SharesDivided)]

    def apply(self, name, **fields):
        queue = Queue(queue=name, **({"kind": "project"} | fields))
        self.given(QueueApplyRequested(name=name, queue=queue, user="ada"))
        (event,) = self.decided()
        return event

    def node(self, gpus):
        devices = tuple(
            Device(device=f"g{i}", index=i, model="H100", memory_bytes=80 * 10**9)
            for i in range(gpus)
        )
        self.given(
            NodeJoined(
                node="n1", host="n1", address="a", boot="b", incarnation="i", public_key="",
                devices=devices,
            )
        )  # fmt: skip

    def job(self, name, gpus=1000, project="vision", **fields):
        fields = {"user": "ada", "name": name, "requested_at": 1, "priority": 40} | fields
        gang = Gang(accelerators=(Accelerator(milli=gpus),))
        self.given(JobAdmitted(job=name, project=project, gang=gang, **fields))

    def finish(self, name, outcome="succeeded", project="vision"):
        self.given(JobFinished(job=name, project=project, outcome=outcome))


@pytest.fixture
def history():
    history = History()
    history.node(8)
    history.apply("research", kind="department", quota_milli=-1)
    history.apply("vision", parent="research", quota_milli=2000)
    return history


def test_a_preemptible_job_competes_at_once(history):
    history.job("a")
    assert history.decided() == [JobEligible(job="a", project="vision")]


def test_a_job_that_cannot_be_preempted_waits_for_room_within_the_quota(history):
    for name in "abc":
        history.job(name, preemptible=False)
    assert history.decided() == [
        JobEligible(job="a", project="vision"),
        JobEligible(job="b", project="vision"),
        JobHeld(job="c", project="vision", reason=HELD_QUOTA),
    ]
    assert history.decided() == []
    history.finish("a")
    assert history.decided() == [JobEligible(job="c", project="vision")]


def test_a_larger_quota_lets_held_jobs_in(history):
    history.job("a", gpus=4000, preemptible=False)
    assert isinstance(history.decided()[0], JobHeld)
    history.given(
        QueueApplyRequested(
            name="vision",
            queue=Queue(queue="vision", kind="project", parent="research", quota_milli=4000),
        )
    )
    events = history.decided()
    assert isinstance(events[0], QueueConfigured)
    assert events[1] == JobEligible(job="a", project="vision")


def test_the_quota_of_the_department_counts_too(history):
    history.apply("research", kind="department", quota_milli=3000)
    history.apply("ads", parent="research", quota_milli=2000)
    history.job("a", gpus=2000, preemptible=False)
    history.job("b", gpus=2000, project="ads", preemptible=False)
    assert [type(event) for event in history.decided()] == [JobEligible, JobHeld]


def test_tasks_of_a_group_compete_a_few_at_a_time(history):
    group = JobAdmitted(
        job="s", project="vision", name="s", user="ada", gang=Gang(), requested_at=1, priority=40,
        tasks=4, tasks_parallel=2,
    )  # fmt: skip
    history.given(group)
    for index in range(4):
        history.job(f"s/{index}", group="s", index=index)
    assert history.decided() == [
        JobEligible(job="s/0", project="vision"),
        JobEligible(job="s/1", project="vision"),
        JobHeld(job="s/2", project="vision", reason=HELD_GROUP),
        JobHeld(job="s/3", project="vision", reason=HELD_GROUP),
    ]
    history.finish("s/1")
    assert history.decided() == [JobEligible(job="s/2", project="vision")]
    history.finish("s/3", outcome="cancelled")
    assert history.decided() == []
    history.finish("s/0")
    history.finish("s/2")
    history.finish("s")
    assert history.decided() == []
    assert not history.state.jobs
    assert not history.state.groups


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "Bad_Name"}, "name"),
        ({"name": "x" * 42}, "name"),
        ({"kind": "team"}, "type"),
        ({"quota_milli": -5}, "gpus.quota"),
        ({"limit_milli": -2}, "gpus.limit"),
        ({"weight": -1}, "gpus.over_quota_weight"),
        ({"priority": -1}, "priority"),
        ({"quota_milli": 4000, "limit_milli": 2000}, "gpus.quota"),
        ({"quota_milli": -1, "limit_milli": 2000}, "gpus.quota"),
        ({"parent": "nobody"}, "department"),
        ({"parent": "vision"}, "department"),
        ({"name": "research", "kind": "project"}, "type"),
        ({"name": "research", "kind": "department", "parent": "research"}, "department"),
        ({"name": "research", "kind": "department", "parent": "below"}, "department"),
    ],
)
def test_a_document_that_contradicts_the_tree_is_refused_by_field(history, fields, field):
    history.apply("below", kind="department", parent="research")
    event = history.apply(fields.pop("name", "new"), **fields)
    assert isinstance(event, QueueRefused)
    assert event.refusal.field == field


def test_applying_says_what_it_changed(history):
    assert history.apply("ads", parent="research").change == "created"
    assert history.apply("ads", parent="research").change == "unchanged"
    assert history.apply("ads", parent="research", quota_milli=1000).change == "updated"


def test_shares_are_told_at_most_once_a_second_and_only_when_they_changed(history):
    history.settled()
    history.now_us = told_us = DECIDER.wakeup(history.state) or history.now_us
    history.settled()
    history.job("a", gpus=3000)
    history.now_us = told_us + 500_000
    assert not [e for e in history.settled() if isinstance(e, SharesDivided)]
    history.now_us = DECIDER.wakeup(history.state)
    (event,) = history.settled()
    assert event == SharesDivided(total_milli=8000, shares={"vision": 3000})
    history.finish("a")
    history.job("b", gpus=3000)
    history.now_us += 2_000_000
    assert not [e for e in history.settled() if isinstance(e, SharesDivided)]
    assert DECIDER.wakeup(history.state) is None


def test_an_empty_tree_decides_nothing():
    history = History()
    assert history.settled() == []


move = st.one_of(
    st.tuples(st.just("job"), st.booleans(), st.sampled_from((500, 1000, 3000))),
    st.tuples(st.just("group"), st.integers(1, 5), st.integers(0, 3)),
    st.tuples(st.just("finish"), st.integers(0, 50)),
    st.tuples(st.just("quota"), st.sampled_from((0, 1000, 4000))),
)


def play(history, number, step):
    if step[0] == "job":
        history.job(f"j{number}", gpus=step[2], preemptible=step[1])
    elif step[0] == "group":
        history.given(
            JobAdmitted(
                job=f"g{number}", project="vision", name="g", user="ada", gang=Gang(),
                requested_at=1, priority=40, tasks=step[1], tasks_parallel=step[2],
            )
        )  # fmt: skip
        for index in range(step[1]):
            history.job(f"g{number}/{index}", group=f"g{number}", index=index)
    elif step[0] == "finish" and history.state.jobs:
        history.finish(list(history.state.jobs)[step[1] % len(history.state.jobs)])
    elif step[0] == "quota":
        queue = Queue(queue="vision", kind="project", parent="research", quota_milli=step[1])
        history.given(QueueApplyRequested(name="vision", queue=queue))


@settings(max_examples=80, deadline=None)
@given(st.lists(move, max_size=40), st.sets(st.integers(0, 40)))
def test_firm_work_never_enters_above_quota_and_any_cut_gives_the_same(steps, cuts):
    histories = [History(), History()]
    for history in histories:
        history.node(8)
        history.apply("research", kind="department", quota_milli=-1)
        history.apply("vision", parent="research", quota_milli=2000)
    one, twin = histories
    for number, step in enumerate(steps):
        play(one, number, step)
        play(twin, number, step)
        if number in cuts:
            data = msgspec.json.encode(twin.state)
            twin.state = msgspec.json.decode(data, type=DECIDER.state)
            assert msgspec.json.encode(twin.state) == data
        firm = one.state.firm["vision"].firm_milli
        events = one.settled()
        assert twin.settled() == events
        after = one.state.firm["vision"].firm_milli
        assert after <= max(firm, one.state.queues["vision"].quota_milli)
        for group in one.state.groups.values():
            assert not group.parallel or group.eligible <= group.parallel
        assert not one.state.fresh
    assert msgspec.json.encode(one.state) == msgspec.json.encode(twin.state)


@pytest.mark.security
def test_thousands_of_one_projects_jobs_leave_another_ones_among_the_first(history):
    history.apply("ads")
    history.settled()
    for number in range(1_000):
        history.job(f"noise-{number}")
    history.job("quiet", project="ads")
    first = [draft.event for draft in DECIDER.decide(history.state, history.now_us)]
    jobs = [event.job for event in first if isinstance(event, JobEligible)]
    assert jobs.index("quiet") < 5
    assert "noise-0" in jobs[:2]
