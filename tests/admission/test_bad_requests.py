"""What is wrong with a request is found without looking through everything that there is.

Rule: counted in interpreter steps, not in time: a refusal takes as many with thousands of jobs,
nodes and names as with ten.
"""

import sys

import pytest

from headrace.admission.derived import index_of
from headrace.events.access import PublisherDeleteRequested, PublisherRequested
from headrace.events.asked import Dependency
from headrace.events.jobs import JobAdmitted
from headrace.events.members import ApprovalRequested, JoinWaiting
from headrace.events.pauses import JobPauseRequested, JobPausing, JobResumeRequested, JobResuming
from headrace.events.templates import TemplateDeleteRequested
from headrace.events.volumes import VolumeDeleteRequested
from headrace.events.webhooks import WebhookDeleteRequested

from .facts import cancel, finished, gang, history, node, pool, project, requested

AFTER = (Dependency(job="nothing-0000", state="succeeded"),)
BAD = {
    "after": requested("bad", after=AFTER),
    "project": requested("bad", "visoin"),
    "pool": requested("bad", wants=gang(pools=("nowhere",))),
    "level": requested("bad", wants=gang(pools=("p1",), topology_required="nowhere")),
    "slices": requested("bad", wants=gang(500, pools=("mig",))),
    "volume": requested("bad", wants=gang(volumes=("nothing",))),
    "secret": requested("bad", secrets=("NOTHING",)),
    "cancel": cancel("nothing-0000"),
    "pause": JobPauseRequested(job="nothing-0000", project="vision", user="ada"),
    "resume": JobResumeRequested(job="s-1", project="vision", user="ada"),
    "template": TemplateDeleteRequested(name="nothing", project="vision", user="ada"),
    "webhook": WebhookDeleteRequested(name="nothing", project="vision"),
    "publisher": PublisherDeleteRequested(name="nothing", project="vision"),
    "key": PublisherRequested(project="vision", name="p", public_key="U1"),
    "approval": ApprovalRequested(node="nothing", approved=True),
    "volume delete": VolumeDeleteRequested(name="nothing", user="ada"),
}


def admitted(job, wants=None, **fields):
    return JobAdmitted(
        job=job, project="vision", name="a", user="ada", gang=wants or gang(), requested_at=1,
        priority=50, **fields,
    )  # fmt: skip


def platform(size):
    """Jobs that live and have ended, tasks, nodes, members, pools and projects: `size` of each."""
    run = history(project("zoo"), pool("mig"), node("m", gpus=0))
    for number in range(size):
        run.given(
            project(f"other-{number}"),
            pool(f"p{number}", topology=("rack",)),
            node(f"n{number}", gpus=1),
            admitted(f"job-{number:04}"),
            admitted(f"old-{number:04}"),
            finished(f"old-{number:04}"),
            JoinWaiting(node=f"w{number}", token="t", public_key=f"U{number}", box_key="b"),
        )
    run.given(admitted("s-1", tasks=size))
    for number in range(size):
        run.given(admitted(f"s-1/{number}", group="s-1", index=number))
    return run


def steps(run):
    """How many lines a decision executes."""
    counted = 0

    def count(_frame, event, _argument):
        nonlocal counted
        counted += event == "line"
        return count

    sys.settrace(count)
    try:
        (draft,) = run.decides()
    finally:
        sys.settrace(None)
    assert draft.event.refusal
    return counted


@pytest.fixture(scope="module")
def small():
    return platform(10)


@pytest.fixture(scope="module")
def large():
    return platform(600)


@pytest.mark.parametrize("kind", BAD)
def test_a_refusal_costs_no_more_where_there_is_much(small, large, kind):
    taken = []
    for run in (small, large):
        run.given(BAD[kind])
        run.decides()  # what is kept beside the state is made once
        taken.append(steps(run))
        run.turn()
    assert taken[1] <= taken[0] + 20, taken


def test_what_is_kept_beside_the_state_is_what_the_state_has():
    run = history(admitted("a-1", wants=gang(volumes=("data",))), admitted("s-1", tasks=2))
    index_of(run.state)
    run.given(admitted("s-1/0", group="s-1"), admitted("s-1/1", group="s-1", index=1))
    run.given(JobPausing(job="s-1/0", project="vision"), admitted("b-1"), finished("a-1"))
    run.given(JobPausing(job="s-1/1", project="vision"), JobResuming(job="s-1/1", project="vision"))
    run.given(finished("s-1/1"))
    kept = index_of(run.state)
    run.state.__dict__.pop("index")
    built = index_of(run.state)
    for name in ("with_volume", "pausing"):
        assert getattr(kept, name) == getattr(built, name)
    for ids in ("live", "ended"):
        assert getattr(kept, ids).of("vision") == getattr(built, ids).of("vision")
    assert built.pausing == {"s-1": {"s-1/0": None}}
