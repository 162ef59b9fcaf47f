"""Single jobs: admitted, refused, cancelled."""

import msgspec
import pytest

from headrace.admission.decide import DECIDER
from headrace.decider.testing import given
from headrace.events.access import SecretSet
from headrace.events.asked import Gang
from headrace.events.jobs import JobAdmitted, JobCancelling, JobCancelRefused, JobRefused

from .facts import (
    cancel,
    decided,
    enter,
    finished,
    gang,
    history,
    led,
    node,
    project,
    refusal,
    requested,
)


def test_a_job_of_a_known_project_is_admitted_with_all_that_others_need():
    turn = history().given(requested(priority="high", max_duration_us=5), traceparent="t").turn()
    (draft,) = turn
    assert draft.event == JobAdmitted(
        job="a-1", project="vision", name="a", user="ada", gang=gang(), requested_at=3,
        priority=60, max_duration_us=5,
    )  # fmt: skip
    assert (draft.causation, draft.traceparent) == (3, "t")


def test_a_request_is_decided_once():
    run = history(requested())
    assert len(run.turn()) == 1
    assert run.turn() == []
    assert DECIDER.wakeup(run.state) is None


def test_nothing_is_decided_when_nothing_is_pending():
    assert history().turn() == []
    assert DECIDER.wakeup(history(requested()).state) == 0


def test_an_unknown_project_is_refused_with_the_nearest_one():
    run = history(requested(project="vison"))
    assert refusal(run) == "refused: project = vison — does not exist; did you mean vision?"


def test_a_department_has_no_jobs_of_its_own():
    run = history(project("research", kind="department"), requested(project="research"))
    said = "refused: project = research — is a department, which has no jobs of its own"
    assert refusal(run).startswith(said)


def test_where_there_is_no_project_yet_the_way_to_one_is_named():
    run = given(DECIDER, requested())
    assert refusal(run).endswith("does not exist; there is none yet: headrace apply -f creates one")


def test_a_project_that_came_to_be_while_the_job_was_on_its_way_asks_for_it_again():
    unsealed = msgspec.structs.replace(requested(), launch=b"", launch_key="")
    run = history(unsealed)
    assert refusal(run).endswith("did not exist yet when the job was received; submit it again")


def test_an_id_is_never_given_to_two_jobs():
    run = history(requested())
    run.turn()
    assert refusal(run.given(requested())) == "refused: job = a-1 — is another job's id already"
    assert "a-1" in run.state.live


def test_a_secret_that_was_never_set_is_refused_with_the_way_to_set_it():
    run = history(requested(secrets=("WANDB_API_KEY",)))
    assert refusal(run) == (
        "refused: secrets = WANDB_API_KEY — project vision has no secret of this name; "
        "headrace secret set WANDB_API_KEY --project vision"
    )
    run.given(SecretSet(project="vision", name="WANDB_API_KEY", version="v1"))
    assert isinstance(decided(run.given(requested("a-2", secrets=("WANDB_API_KEY",)))), JobAdmitted)


def test_a_gang_above_the_projects_limit_is_refused_with_what_fits():
    run = history(project(limit_milli=32_000))
    run.given(requested(wants=gang(16_000, nodes=4, model="H100")))
    assert refusal(run) == (
        "refused: nodes = 4 — project vision may hold at most 32 GPUs (limit set by apply at "
        "position 3); 4 × H100:16 is 64; nodes: 2 fits"
    )


def test_a_job_above_its_departments_limit_is_refused_too():
    department = project("research", kind="department", limit_milli=4_000)
    run = history(department, project(parent="research"), requested(wants=gang(8_000)))
    assert refusal(run) == (
        "refused: resources.gpus = 8 — department research may hold at most 4 GPUs (limit set by "
        "apply at position 3); gpus: 4 fits"
    )


def test_what_is_never_preempted_must_fit_the_quota():
    run = history(project(quota_milli=8_000))
    run.given(requested(preemptible=False, wants=gang(8_000, nodes=2)))
    assert refusal(run) == (
        "refused: preemptibility = non-preemptible — project vision is guaranteed 8 GPUs (quota "
        "set by apply at position 3) and a job that is never preempted must fit; 2 × 8 is 16; "
        "preemptible may use more"
    )
    whole = project(quota_milli=-1)
    run.given(whole, requested("a-2", preemptible=False, wants=gang(8_000, nodes=2)))
    assert isinstance(decided(run), JobAdmitted)


def test_a_limit_looks_at_the_smallest_of_the_preferences():
    wants = Gang(accelerators=gang(8_000).accelerators + gang(2_000).accelerators)
    run = history(project(limit_milli=4_000), requested(wants=wants))
    assert isinstance(decided(run), JobAdmitted)


def test_a_project_holds_a_bounded_number_of_live_jobs():
    run = history(led(jobs_per_project_max=2), requested("a-1"), requested("a-2"), requested("a-3"))
    answers = [draft.event for draft in run.turn()]
    assert [type(answer) for answer in answers] == [JobAdmitted, JobAdmitted, JobRefused]
    assert "at most 2 live jobs" in str(answers[2].refusal)
    assert isinstance(decided(run.given(finished("a-1"), requested("a-4"))), JobAdmitted)


def test_a_live_job_is_cancelled_by_whoever_asks_in_its_project():
    run = history(requested())
    run.turn()
    assert decided(run.given(cancel())) == JobCancelling(job="a-1", project="vision", user="bob")
    assert isinstance(decided(run.given(cancel())), JobCancelling)  # asked again, said again


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled"])
def test_an_ended_job_cannot_be_cancelled(outcome):
    run = history(requested())
    run.turn()
    run.given(finished(outcome=outcome), cancel())
    assert refusal(run) == f"refused: job = a-1 — has already ended: {outcome}"


def test_a_refused_job_has_ended():
    run = history(requested(secrets=("A",)))
    run.turn()
    assert refusal(run.given(cancel())) == "refused: job = a-1 — has already ended: refused"


def test_a_job_nobody_knows_cannot_be_cancelled():
    run = history(requested("train-k3f9"))
    run.turn()
    assert refusal(run.given(cancel("train-k3f8"))) == (
        "refused: job = train-k3f8 — is not a job of project vision; did you mean train-k3f9?"
    )


@pytest.mark.parametrize("then", [(), (finished(),)])
def test_another_projects_job_is_not_even_confirmed_to_exist_or_have_existed(then):
    run = history(project("ads"), requested())
    run.turn()
    run.given(*then)
    answer = decided(run.given(cancel("a-1", project="ads")))
    assert isinstance(answer, JobCancelRefused)
    assert str(answer.refusal) == "refused: job = a-1 — is not a job of project ads"


def test_how_jobs_ended_is_remembered_of_a_bounded_number():
    run = history(led(outcomes_max=2), *(requested(f"a-{i}") for i in range(4)))
    run.turn()
    run.given(*(finished(f"a-{i}") for i in range(4)))
    assert list(run.state.outcomes) == ["a-2", "a-3"]
    assert run.state.live == {}
    assert run.state.live_of == {}


def test_what_comes_in_one_turn_is_judged_in_the_order_of_the_log():
    set_now = SecretSet(project="vision", name="A", version="v1")
    run = history(requested("a-1", secrets=("A",)), set_now, requested("a-2", secrets=("A",)))
    assert [type(d.event) for d in run.turn()] == [JobAdmitted, JobAdmitted]


def test_a_turn_decides_a_bounded_number():
    run = history(led(drafts_max=3), *(requested(f"a-{i}") for i in range(5)))
    assert [d.event.job for d in run.turn()] == ["a-0", "a-1", "a-2"]
    assert [d.event.job for d in run.turn()] == ["a-3", "a-4"]


def test_events_about_jobs_nobody_knows_change_nothing():
    run = history(finished("x-1"), JobCancelling(job="x-1", project="vision"))
    assert run.turn() == []
    assert run.state.outcomes == {}


def test_settings_of_other_services_are_not_ours():
    theirs = msgspec.structs.replace(led(drafts_max=1), service="quota")
    assert history(theirs).state.setting("drafts_max") == 400


def test_a_node_that_joins_later_ends_the_warning():
    run = given(DECIDER, project(), requested())
    said = "accepted, but cannot run today: no node has 1 × GPU; no node has joined yet"
    assert decided(run).warning == said
    assert decided(run.given(node(), requested("a-2"))).warning == ""


def test_who_enters_anothers_job_is_on_record_and_only_while_it_lives():
    run = history(requested())
    run.turn()
    entered = decided(run.given(enter()))
    assert (entered.job, entered.user, entered.way, entered.what) == ("a-1", "bob", "exec", "sh")
    for wrong in (enter("b-1"), enter(project="ads")):
        refused = decided(run.given(wrong))
        assert refused.refusal.rule == f"is not a job of project {wrong.project} that runs"


@pytest.mark.security
def test_one_users_jobs_leave_room_for_the_others_of_the_project():
    asked = [requested(f"job-{number}", user="etl") for number in range(3)]
    run = history(led(jobs_per_user_max=2), *asked, requested("mine-1"))
    answers = [draft.event for draft in run.turn()]
    assert str(answers[2].refusal) == (
        "refused: job = job — etl in project vision may have at most 2 live jobs, tasks included "
        "(jobs_per_user_max, set for this service at position 3), and has 2; submit it when some of "
        "them have ended"
    )
    assert isinstance(answers[3], JobAdmitted)
    run.given(finished("job-0"), requested("job-4", user="etl"))
    assert isinstance(decided(run), JobAdmitted)


@pytest.mark.security
def test_one_projects_ended_jobs_do_not_make_another_ones_forgotten():
    theirs = requested("b-0", project="ads")
    run = history(led(outcomes_max=5, outcomes_per_project_max=2), project("ads"), theirs)
    run.turn()
    run.given(finished("b-0", project="ads"))
    for number in range(9):
        run.given(requested(f"a-{number}")).turn()
        run.given(finished(f"a-{number}"))
    assert list(run.state.outcomes) == ["b-0", "a-7", "a-8"]
