"""A way into a running job: on record when it is another's, then a wire to the worker.

Rule: who did not submit the job gets in only once that is on record: each program that is started
and each look at the output, each port and workspace once an hour, as what passes there is many
connections. Under which key it is recorded is never for who enters to say: a key that was used before
is answered from the record, and nothing new gets there.
"""

from __future__ import annotations

import secrets

import msgspec

from headrace.bus import subjects
from headrace.bus.interface import BusError
from headrace.bus.sessions import OPEN_S_MAX, Enter, Entered, Wire
from headrace.client.model import ENDED, Answer
from headrace.client.session_model import Visit
from headrace.events.gangs import Worker
from headrace.gateway.caller import Caller
from headrace.gateway.errors import BadRequest, GatewayError, NotReady
from headrace.gateway.gateway import Gateway
from headrace.gateway.projection import Job


async def recorded(by: Caller, job: Job, visit: Visit) -> None:
    """Put on record that somebody who did not submit the job enters. Raises `GatewayError`."""
    worker = worker_of(job, visit)
    what = visit.command[0] if visit.command else str(visit.port or "")
    body = {"job": job.job, "way": visit.way, "rank": visit.rank, "what": what}

    async def record() -> None:
        answer = await by.ask("job.enter", job.project, body)
        if not answer.accepted:
            raise NotLetIn(answer)

    if by.subject.actor == job.user:
        return
    if visit.port:
        about = (
            by.subject.actor,
            f"{worker.node} {job.attempt} {job.job} {visit.rank} {visit.port}",
        )
        await by.gateway.entries.once(about, record)
    else:
        await record()


async def wire_to(gateway: Gateway, job: Job, visit: Visit) -> Wire:
    """A wire to the worker, which the caller closes. Raises `GatewayError`."""
    worker = worker_of(job, visit)
    session = secrets.token_hex(16)
    enter = Enter(
        session=session, way=visit.way, job=job.job, attempt=job.attempt, rank=visit.rank,
        process=visit.process, command=visit.command, rows=visit.rows, columns=visit.columns,
        port=visit.port,
    )  # fmt: skip
    wire = Wire(
        gateway.bus,
        send_to=subjects.session_down(worker.node, session),
        hear_from=subjects.session_up(worker.node, session),
    )
    try:
        await wire.open()
        subject = subjects.agent_down(worker.node, "session")
        reply = await gateway.bus.request(subject, msgspec.json.encode(enter), timeout_s=OPEN_S_MAX)
        refused = msgspec.json.decode(reply.data, type=Entered).refused
    except BusError as error:
        await wire.close()
        raise NotReady(f"node {worker.node} does not answer") from error
    if refused:
        await wire.close()
        raise BadRequest("job", job.job, refused)
    return wire


def worker_of(job: Job, visit: Visit) -> Worker:
    """The worker that is meant. Raises `BadRequest`."""
    if job.tasks:
        raise BadRequest("job", job.job, "is many; name one", f"{job.job}/0")
    if job.state in ENDED or not job.workers:
        raise BadRequest("job", job.job, f"does not run: it is {job.state}")
    found = next((worker for worker in job.workers if worker.rank == visit.rank), None)
    if found is None:
        ranks = f"0 to {len(job.workers) - 1}" if len(job.workers) > 1 else "0"
        raise BadRequest("rank", str(visit.rank), "is not a worker of this job", ranks)
    return found


class NotLetIn(GatewayError):
    """Admission's own words."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self._answer = answer

    def answer(self) -> Answer:
        return self._answer
