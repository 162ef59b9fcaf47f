"""An operator for Airflow that runs a job on the fleet, and the trigger that waits for its end.

It lies in Airflow's plugins folder, where the triggerer finds it; a DAG's own file it cannot import.
`HEADRACE_URL`, `HEADRACE_TOKEN` (of a service account that acts for people) and `HEADRACE_PROJECT` are
set for Airflow; `HEADRACE_PERSON` is in whose name it asks. The operator submits and leaves its worker;
the trigger waits on the stream of the job's events. When the task is killed, marked or cleared, its job
is cancelled; but for the second between deferring and the trigger's start, when Airflow tells nobody. A try again goes on with the job of an earlier try where that still runs, and else submits.
"""

import hashlib
import json
import os
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from headrace.client import AsyncClient, Client
from headrace.client.config import context as configured
from headrace.client.model import ENDED, Answer


def _arguments() -> tuple[str, ...]:
    url, token, project, certificate, _ = configured()
    return url, token, project, certificate, os.environ.get("HEADRACE_PERSON", "")


class JobEnded(BaseTrigger):
    """Fires when the job has ended."""

    def __init__(self, job: str, after: int) -> None:
        super().__init__()
        self.job, self.after = job, after

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "headrace_job.JobEnded", {"job": self.job, "after": self.after}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        self.log.info("waits for the end of job %s", self.job)
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

    template_fields = ("job",)

    def __init__(self, job: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.submitted = ""

    def execute(self, context: Any) -> None:
        task = context["ti"]
        of = [task.dag_id, task.run_id, task.task_id, task.map_index, self.job]
        key = "airflow-" + hashlib.sha256(json.dumps(of).encode()).hexdigest()
        answer = self._running(key, task.try_number)
        self.log.info("job %s", answer.job)
        self.defer(trigger=JobEnded(answer.job, answer.position), method_name="ended")

    def _running(self, key: str, tries: int) -> Answer:
        """The newest job of this task's tries; a new one when those before failed or were cancelled."""
        client = Client(*_arguments())
        for number in range(1, tries + 1):
            answer = client.submit(self.job, key=f"{key}-{number}")  # the same key is the same job
            self.submitted = answer.job
            state = client.job(answer.job).job.state
            if state not in ENDED or state == "succeeded":
                break
        return answer

    def ended(self, context: Any, event: dict[str, str]) -> str:
        del context
        if event["outcome"] != "succeeded":
            raise RuntimeError(f"job {event['job']} {event['outcome']}")
        return event["job"]

    def on_kill(self) -> None:
        """Somebody ended the task while it ran here."""
        if self.submitted:
            Client(*_arguments()).cancel(self.submitted)
