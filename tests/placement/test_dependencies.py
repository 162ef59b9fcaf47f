"""Jobs that waited in vain for another's end."""

from headrace.events.jobs import JobCancelling, JobHeld
from headrace.placement.explain_rules import explain

WHY = "features-1 was to succeed and has ended as failed"


def ends(history, name):
    history.given(JobCancelling(job=name, project="default", reason="dependency", message=WHY))
    return history.settled()


def test_one_that_waits_says_for_whom_and_one_that_waited_in_vain_what_became_of_that(history):
    history.job("late", eligible=False)
    waits = "waits for job features-1 to succeed"
    history.given(JobHeld(job="late", project="default", reason=waits))
    assert explain(history.state, "late", history.now_us).text == waits
    (finished,) = ends(history, "late")
    assert (finished.outcome, finished.reason, finished.message) == ("cancelled", "dependency", WHY)


def test_a_group_that_waited_in_vain_says_so_rather_than_counting_its_tasks(history):
    history.job("s-1", tasks=2, eligible=False)
    finished = ends(history, "s-1")[-1]
    assert (finished.outcome, finished.reason, finished.message) == ("cancelled", "dependency", WHY)
