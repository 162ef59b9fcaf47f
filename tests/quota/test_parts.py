"""Jobs that no limit would ever let run are held and told so, until the tree changes."""

import pytest

from headrace.events.asked import Accelerator, Gang, Role
from headrace.events.jobs import JobAdmitted, JobEligible, JobHeld
from headrace.events.queues import Allowance, Queue, QueueApplyRequested

from .test_quota import History


def some(quota=0, limit=-1):
    return Allowance(quota_milli=quota * 1000, limit_milli=limit * 1000 if limit >= 0 else -1)


@pytest.fixture
def history():
    history = History()
    history.node(8)
    history.apply("research", kind="department", quota_milli=-1)
    history.apply("vision", parent="research", quota_milli=8000)
    return history


def asks(history, name, *models, gpus=4, nodes=1, pools=(), **fields):
    fields = {"user": "ada", "name": name, "requested_at": 1, "priority": 40} | fields
    kinds = tuple(Accelerator(milli=gpus * 1000, model=model) for model in models)
    gang = Gang(nodes=nodes, accelerators=kinds, pools=pools)
    history.given(JobAdmitted(job=name, project="vision", gang=gang, **fields))


def rationed(history, **fields):
    """Another document of the project, and what follows from it for jobs."""
    fields = {"kind": "project", "parent": "research", "quota_milli": 8000} | fields
    history.given(QueueApplyRequested(name="vision", queue=Queue(queue="vision", **fields)))
    return [event for event in history.decided() if isinstance(event, JobEligible | JobHeld)]


def held(name, reason):
    return JobHeld(job=name, project="vision", reason=reason)


H100_AT_MOST_2 = "project vision may hold at most 2 H100 GPUs, and this needs 4"


def test_a_job_that_no_limit_lets_run_is_held_until_one_does(history):
    rationed(history, per_type={"H100": some(limit=2)})
    asks(history, "a", "H100-80GB")
    assert history.decided() == [held("a", H100_AT_MOST_2)]
    assert history.decided() == []
    assert rationed(history, per_type={"H100": some(limit=3)}) == [
        held("a", H100_AT_MOST_2.replace("2 H100", "3 H100"))
    ]
    assert rationed(history) == [JobEligible(job="a", project="vision")]
    assert not history.state.never


def test_another_kind_or_pool_that_it_accepts_lets_it_compete(history):
    rationed(history, per_type={"H100": some(limit=2)}, per_pool={"train": some(limit=2)})
    asks(history, "a", "H100", "A100")
    asks(history, "b", "A100", pools=("train", "spot"))
    asks(history, "c", "", gpus=4)
    assert history.decided() == [JobEligible(job=name, project="vision") for name in "abc"]
    asks(history, "d", "A100", gpus=1, nodes=3, pools=("train",))
    assert history.decided() == [
        held("d", "project vision may hold at most 2 GPUs of pool train, and this needs 3")
    ]


def test_what_roles_need_of_a_type_counts_together(history):
    rationed(history, per_type={"H100": some(limit=4), "A100": some(limit=2)})
    h100, a100 = (Accelerator(milli=1000, model=model) for model in ("H100", "A100"))
    learner = Role(name="learner", nodes=2, accelerators=(h100,))
    for name, kinds in (("a", (h100,)), ("b", (h100, a100)), ("c", (a100,))):
        actor = Role(name="actor", nodes=3, accelerators=kinds)
        gang = Gang(roles=(learner, actor, Role(name="server")))
        fields = {"user": "ada", "name": name, "requested_at": 1, "priority": 40}
        history.given(JobAdmitted(job=name, project="vision", gang=gang, **fields))
    five_h100 = "project vision may hold at most 4 H100 GPUs, and this needs 5"
    three_a100 = "project vision may hold at most 2 A100 GPUs, and this needs 3"
    assert history.decided() == [held("a", five_h100), held("b", five_h100), held("c", three_a100)]
    more = {"H100": some(limit=4), "A100": some(limit=3)}
    assert rationed(history, per_type=more) == [
        held("a", five_h100),
        JobEligible(job="b", project="vision"),
        JobEligible(job="c", project="vision"),
    ]


def test_what_cannot_be_preempted_must_fit_the_quota_of_the_type_that_is_given(history):
    rationed(history, per_type={"H100": some(quota=2)})
    asks(history, "a", "H100", preemptible=False)
    asks(history, "b", "H100")
    asks(history, "c", "A100", preemptible=False)
    assert history.decided() == [
        held(
            "a",
            "project vision may hold without preemption at most 2 H100 GPUs, and this needs 4",
        ),
        JobEligible(job="b", project="vision"),
        JobEligible(job="c", project="vision"),
    ]


def test_a_limit_of_all_gpus_and_of_one_user_holds_too(history):
    rationed(history, quota_milli=0, limit_milli=3000)
    asks(history, "a", "")
    assert history.decided() == [
        held("a", "project vision may hold at most 3 GPUs, and this needs 4")
    ]
    assert rationed(history, users_equal=True, user_max_milli=2000) == [
        held("a", "project vision may hold at most 2 GPUs for one user, and this needs 4")
    ]


def test_one_that_ends_while_it_is_held_is_forgotten(history):
    rationed(history, per_type={"H100": some(limit=2)})
    asks(history, "a", "H100")
    history.decided()
    history.finish("a", outcome="cancelled")
    assert rationed(history) == []
    assert not history.state.never
    assert not history.state.fresh
