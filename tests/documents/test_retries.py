"""When a job is tried again, as job files say it."""

import pytest

from headrace.documents import JobFile, plan, read_job
from headrace.events import Refusal
from headrace.events.asked import RETRY_REST_US_MAX, Retry


def found(retry):
    job = read_job({"command": "x", "retry": retry})
    return plan(job) if isinstance(job, JobFile) else job


def test_a_job_names_the_ends_after_which_it_is_tried_again():
    retry = found({"on": ["oom", "node-lost"], "attempts": 5, "backoff": "30s"}).retry
    assert retry == Retry(on=("node-lost", "oom"), attempts=5, backoff_us=30_000_000)
    assert found({"on": ["error"]}).retry == Retry(on=("error",), attempts=3)
    assert found(None).retry == Retry()


@pytest.mark.parametrize(
    ("retry", "said"),
    [
        ({}, "retry.on — must be given"),
        ({"on": ["preempted"]}, "retry.on = preempted — is never an attempt used up"),
        ({"on": ["eror"]}, "did you mean error?"),
        ({"on": ["oom"], "attempts": 0}, "retry.attempts = 0 — must be 1 to 100"),
        ({"on": ["oom"], "attempts": "many"}, "retry.attempts = many"),
        ({"on": ["oom"], "backoff": "30"}, "retry.backoff = 30"),
        ({"on": ["oom"], "backoff": "2d"}, "retry.backoff = 2d — is longer than a day"),
        ({"on": ["oom"], "backof": "2s"}, "did you mean backoff?"),
    ],
)
def test_what_cannot_be_is_refused_by_name(retry, said):
    refusal = found(retry)
    assert isinstance(refusal, Refusal)
    assert said in str(refusal)


def test_a_rest_is_doubled_up_to_a_day():
    retry = Retry(on=("error",), attempts=100, backoff_us=30_000_000)
    assert [retry.rest_us(tries) // 1_000_000 for tries in (1, 2, 3)] == [30, 60, 120]
    assert retry.rest_us(90) == RETRY_REST_US_MAX
    assert Retry().rest_us(5) == 0
