"""What a job comes after, as job files say it."""

import pytest

from headrace.documents import JobFile, plan, read_job
from headrace.events import Refusal
from headrace.events.asked import Dependency


def found(after):
    job = read_job({"command": "x", "after": after})
    return plan(job) if isinstance(job, JobFile) else job


def test_a_job_names_those_that_have_to_end_first_and_how():
    after = found([{"job": "features"}, {"job": "sweep-k3f9/12", "state": "finished"}]).after
    assert after == (
        Dependency(job="features", state="succeeded"),
        Dependency(job="sweep-k3f9/12", state="finished"),
    )
    assert found(None).after == found([]).after == ()


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("features", "after = features — expected a list, got text"),
        (["features"], "after[0] = features — expected a mapping, got text"),
        ([{}], "after[0].job — must be given"),
        ([{"job": "Fea tures"}], "after[0].job = Fea tures — is no job's id or beginning of one"),
        ([{"job": "a", "stat": "failed"}], "after[0].stat — unknown field; did you mean state?"),
        ([{"job": "a", "state": "suceeded"}], "after[0].state = suceeded — is not one"),
        ([{"job": "a", "state": "suceeded"}], "did you mean succeeded?"),
        ([{"job": "a"}, {"job": "a", "state": "failed"}], "after[1].job = a — is named twice"),
        ([{"job": f"a-{i}"} for i in range(65)], "after = 65 — has at most 64 jobs"),
    ],
)
def test_what_cannot_be_is_refused_by_name(after, said):
    refusal = found(after)
    assert isinstance(refusal, Refusal)
    assert said in str(refusal)
