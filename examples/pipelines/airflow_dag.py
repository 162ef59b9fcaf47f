"""An Airflow DAG that trains on the fleet, with a deferrable operator and its trigger.

`HEADRACE_URL`, `HEADRACE_TOKEN` (of a service account that acts for people) and `HEADRACE_PROJECT` are
set for Airflow; `HEADRACE_PERSON` is in whose name it asks. The operator submits and leaves its worker;
the trigger waits on the stream of the job's events. When the task is killed its job is cancelled; a try
again of the same task finds its job by the key and submits none anew.
"""

import os
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import DAG, BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from headrace.client import AsyncClient, Client
from headrace.client.config import context as configured


def _arguments() -> tuple[str, ...]:
    url, token, project, certificate, _ = configured()
    return url, token, project, certificate, os.environ.get("HEADRACE_PERSON", "")


class JobEnded(BaseTrigger):
    """Fires when the job has ended."""

    def __init__(self, job: str, after: int) -> None:
        super().__init__()
        self.job, self.after = job, after

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "job": self.job,
            "after": self.after,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        async with AsyncClient(*_arguments()) as client:
            async for event in client.events(job=self.job, after=self.after, follow=True):
                if event.type == "job.finished.v1":
                    yield TriggerEvent({"job": self.job, "outcome": event.data["outcome"]})
                    return

    async def on_kill(self) -> None:
        """Somebody ended the task while it was deferred (not: the triggerer was started anew)."""
        async with AsyncClient(*_arguments()) as client:
            await client.cancel(self.job)


class HeadraceJob(BaseOperator):
    """Runs a job file on the fleet."""

    def __init__(self, job: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.submitted = ""

    def execute(self, context: Any) -> None:
        task = context["ti"]
        key = f"airflow-{task.dag_id}-{task.run_id}-{task.task_id}-{task.map_index}"
        answer = Client(*_arguments()).submit(self.job, key=key[:200])
        self.submitted = answer.job
        self.log.info("submitted %s", answer.job)
        self.defer(trigger=JobEnded(answer.job, answer.position), method_name="ended")

    def ended(self, context: Any, event: dict[str, str]) -> str:
        del context
        if event["outcome"] != "succeeded":
            raise RuntimeError(f"job {event['job']} {event['outcome']}")
        return event["job"]

    def on_kill(self) -> None:
        """Somebody ended the task while it ran here."""
        if self.submitted:
            Client(*_arguments()).cancel(self.submitted)


with DAG("headrace_nightly", schedule=None) as dag:
    HeadraceJob(
        task_id="train",
        job={"name": "nightly", "command": ["true"], "resources": {"gpus": 1}},
    )

if __name__ == "__main__":
    dag.test()
