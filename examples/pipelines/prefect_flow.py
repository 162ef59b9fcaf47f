"""A Prefect flow that trains on the fleet: `prefect_flow.py URL TOKEN PROJECT PERSON JOB.json`.

The token is a service account's that acts for people (`headrace user set NAME --service --acts-for`):
the job is PERSON's, with the account on record. The flow waits on the stream of the job's events, and
asks nothing again and again. When the flow is killed its job is cancelled; a retry of the same run finds
its job by the run's id and submits none anew.
"""

import json
import signal
import sys
from pathlib import Path

from prefect import flow, task
from prefect.context import get_run_context

from headrace.client import Client

URL, TOKEN, PROJECT, PERSON, JOB = sys.argv[1:]


@task
def run_on_the_fleet(job: dict) -> str:
    client = Client(URL, TOKEN, PROJECT, person=PERSON)
    key = f"prefect-{get_run_context().task_run.flow_run_id}"
    answer = client.submit(job, key=key)
    print(f"submitted {answer.job}", flush=True)
    try:
        for event in client.events(job=answer.job, after=answer.position, follow=True):
            if event.type == "job.finished.v1":
                return event.data["outcome"]
        raise RuntimeError("the stream of events ended")  # noqa: TRY301 - cancels the job, too
    except BaseException:  # SystemExit and KeyboardInterrupt too: nobody waits for the job any more
        client.copy().cancel(answer.job)
        raise


@flow
def nightly(job: dict) -> str:
    outcome = run_on_the_fleet(job)
    if outcome != "succeeded":
        raise RuntimeError(f"the training {outcome}")
    return outcome


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(nightly(json.loads(Path(JOB).read_text())), flush=True)
