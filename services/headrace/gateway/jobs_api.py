"""`/v1/jobs`: submit, list, describe, cancel, and what workers wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from litestar import Request, delete, get, post
from litestar.params import FromPath, FromQuery, HeaderParameter, QueryParameter
from litestar.response import Response, Stream
from litestar.status_codes import HTTP_200_OK

from headrace.client.model import (
    MAX_PAGE,
    Answer,
    Description,
    JobPage,
    JobRow,
)
from headrace.client.protocol import LOGS_END, LOGS_HEARTBEAT
from headrace.documents.wording import KNOWN_SHOWN_MAX
from headrace.events.gangs import Worker
from headrace.gateway import choosing
from headrace.gateway.answering import response_of
from headrace.gateway.caller import By, Caller, may, while_allowed
from headrace.gateway.choosing import Wish
from headrace.gateway.errors import BadRequest
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.listing import Limit, is_one_of
from headrace.gateway.logs import LogQuery, Offsets, parse_offsets
from headrace.gateway.projection import Job
from headrace.gateway.rows import job_row
from headrace.gateway.selecting import Fields, selected
from headrace.gateway.submitting import SUBMIT, Sent, submitted
from headrace.scheduling.explanation import Explanation

LINES, BYTES = "application/x-ndjson", "application/octet-stream"

Key = Annotated[str, HeaderParameter(name="Idempotency-Key")]
Trace = Annotated[str, HeaderParameter(name="traceparent")]
JobName = FromPath[str]
Index = FromPath[int | None]
Count = Annotated[int, QueryParameter(ge=0, le=MAX_PAGE)]

_ENCODE = msgspec.json.Encoder().encode


@post("/jobs", summary="Submit a job file as JSON", opt=SUBMIT)
async def submit(
    gateway: Gate, by: By, request: Request[Any, Any, Any], key: Key = "", trace: Trace = ""
) -> Response[Answer]:
    """201 with the job's id once it is admitted, 422 with the refusal when it is not."""
    answer = await submitted(gateway, by, await request.body(), Sent(key, trace))
    return response_of(answer, created=True)


@get("/jobs", summary="Jobs, live ones and the latest that ended", opt=may("read", "job"))
async def list_jobs(
    *,
    gateway: Gate,
    by: By,
    project: FromQuery[str] = "",
    user: FromQuery[str] = "",
    state_word: Annotated[str, QueryParameter(name="state")] = "",
    group: FromQuery[str] = "",
    ended: Count = 20,
    limit: Limit = MAX_PAGE,
    before: FromQuery[int] = 0,
    sort: FromQuery[str] = "",
    cursor: FromQuery[str] = "",
    fields: Fields = "",
) -> Response[JobPage]:
    """`state` is a state word, `live` or `ended`; `before` the cursor `more` of the last page. With
    `sort` (a field, with `-` before it the other way round) pages go on at `cursor`, the last
    page's `next`. `fields` names those that are wanted of each row.
    """
    is_one_of("state", state_word, choosing.JOB_STATES)
    by.check_seen(project)
    group = (await by.job(group)).job if group else ""
    if cursor and not sort:
        raise BadRequest("cursor", cursor, "goes on with a list in an order", "sort, or before")
    if before and sort:
        raise BadRequest("before", str(before), "goes on with a list without sort", "cursor")
    wish = Wish(project, user, state_word, group, ended, None if by.sees("") else by.sees)
    if sort:
        found, after = _ordered(gateway, wish, limit, sort, cursor)
        more = 0
    else:
        found, after = choosing.latest(gateway.projection, wish, limit, before), ""
        more = found[0].position if len(found) == limit else 0
    sight, projection, now_us = by.sight, gateway.projection, gateway.follower.now_us()
    page = JobPage(
        jobs=[sight.job_row(job_row(projection, job, now_us)) for job in found],
        as_of_us=now_us,
        position=projection.position,
        more=more,
        next=after,
    )
    return selected(page, fields, JobRow, within="jobs")


@get(
    ["/jobs/{job:str}", "/jobs/{job:str}/{index:int}"],
    summary="One job in full",
    opt=may("read", "job"),
)
async def describe_job(gateway: Gate, by: By, job: JobName, index: Index = None) -> Description:
    """With its attempts, the decisions about it, and its timeline. `job` is an id, a name or a prefix."""
    return by.sight.description(await gateway.description(await by.job(job, index)))


@delete(
    ["/jobs/{job:str}", "/jobs/{job:str}/{index:int}"],
    summary="Cancel a job",
    status_code=HTTP_200_OK,
    opt=may("cancel", "job"),
)
async def cancel_job(
    *,
    gateway: Gate,
    by: By,
    job: JobName,
    index: Index = None,
    now: FromQuery[bool] = False,
    key: Key = "",
    trace: Trace = "",
) -> Response[Answer]:
    """Its workers are asked to stop, with the grace the job has, unless `now`. `job` is an id, a name
    or a prefix.
    """
    found, sent = await by.job(job, index), (key, trace)
    return await _about((gateway, by), "job.cancel", found, sent, {"now": now} if now else {})


@post(
    ["/jobs/{job:str}/pause", "/jobs/{job:str}/{index:int}/pause"],
    summary="Pause a job",
    status_code=HTTP_200_OK,
    opt=may("pause", "job"),
)
async def pause_job(
    *, gateway: Gate, by: By, job: JobName, index: Index = None, key: Key = "", trace: Trace = ""
) -> Response[Answer]:
    """It leaves its GPUs until it is resumed: where its nodes can, with all it did. `job` may be a
    prefix.
    """
    return await _about((gateway, by), "job.pause", await by.job(job, index), (key, trace))


@post(
    ["/jobs/{job:str}/resume", "/jobs/{job:str}/{index:int}/resume"],
    summary="Resume a paused job",
    status_code=HTTP_200_OK,
    opt=may("resume", "job"),
)
async def resume_job(
    *, gateway: Gate, by: By, job: JobName, index: Index = None, key: Key = "", trace: Trace = ""
) -> Response[Answer]:
    """It competes for GPUs again. `job` is an id, a name or a prefix."""
    return await _about((gateway, by), "job.resume", await by.job(job, index), (key, trace))


@get(
    ["/jobs/{job:str}/why", "/jobs/{job:str}/{index:int}/why"],
    summary="Why a job waits",
    opt=may("read", "job"),
)
async def job_why(gateway: Gate, by: By, job: JobName, index: Index = None) -> Explanation:
    """The rule that keeps it waiting, with its numbers, as of now. `job` may be a prefix; of a sweep
    or array it is the task that has waited longest.
    """
    found = choosing.asked_about(gateway.projection, await by.job(job, index))
    live = await gateway.asker.why(found.job) if not found.ended_at_us else None
    if live is not None:
        return by.sight.explanation(live)
    row = by.sight.job_row(gateway.row(found))
    text = f"{row.state}: {row.why}" if row.why else row.state
    return Explanation(
        rule=row.state,
        text=text,
        job=row.job,
        project=row.project,
        position=gateway.projection.position,
        at_us=gateway.follower.now_us(),
    )


@get(
    ["/jobs/{job:str}/logs", "/jobs/{job:str}/{index:int}/logs"],
    summary="What a job's workers wrote, one JSON object a line",
    opt=may("read", "logs"),
)
async def job_logs(
    *,
    gateway: Gate,
    by: By,
    job: JobName,
    index: Index = None,
    rank: FromQuery[int | None] = None,
    role: FromQuery[str] = "",
    process: FromQuery[int | None] = None,
    attempt: FromQuery[int | None] = None,
    follow: FromQuery[bool] = False,
    tail_bytes: FromQuery[int] = 0,
    offsets: FromQuery[str] = "",
    accept: Annotated[str, HeaderParameter(name="Accept")] = "",
) -> Stream:
    """`follow` goes on until the job has ended; `tail_bytes` begins so much before the end of each process. `offsets` is where each process goes on:
    `attempt.rank.process.offset,…`.
    """
    found = await by.job(job, index)
    if found.tasks:
        word = "trial" if found.kind_of_group == "sweep" else "task"
        raise BadRequest("job", found.job, f"is many; name one {word}", f"{found.job}/0")
    query = LogQuery(
        job=found.job,
        rank=rank,
        role=_role(found, role),
        process=process,
        attempt=attempt,
        follow=follow,
        tail_bytes=max(0, tail_bytes),
        offsets=_offsets(offsets),
    )
    if found.ended_at_us:  # of one that lives there may be more to come
        _check_worker(await gateway.workers(found.job), rank, attempt)
    await gateway.readings.note(by, found, "logs")
    gateway.streams.check(by.name)
    media_type = BYTES if accept == BYTES else LINES  # generated clients often know no lines
    return Stream(_lines(gateway, by, query, found), media_type=media_type)


async def _lines(gateway: Gateway, by: Caller, query: LogQuery, job: Job) -> AsyncIterator[bytes]:
    with gateway.streams.taken(by.name):
        workers = await gateway.workers(job.job)
        async for piece in while_allowed(by, gateway.logs.pieces(query, job, workers)):
            yield _ENCODE(piece) + b"\n" if piece else LOGS_HEARTBEAT
    if by.holds():
        yield LOGS_END


def _ordered(
    gateway: Gateway, wish: Wish, limit: int, sort: str, cursor: str
) -> tuple[list[Job], str]:
    try:
        return choosing.ordered(gateway.projection, wish, limit, sort, cursor)
    except KeyError as error:
        raise BadRequest("sort", sort, "is no order", ", ".join(choosing.SORTS)) from error
    except ValueError as error:
        raise BadRequest("cursor", cursor, str(error)) from error


def _role(job: Job, role: str) -> str:
    known = [each.name for each in job.gang.roles]
    if role and role not in known:
        raise BadRequest("role", role, "is not a role of this job", ", ".join(known) or "none")
    return role


def _check_worker(
    workers: Mapping[int, tuple[Worker, ...]], rank: int | None, attempt: int | None
) -> None:
    """Raise `BadRequest` for an attempt that was not, and a worker that was in none."""
    if attempt is not None and attempt not in workers:
        known = ", ".join(map(str, workers)) or "none"
        raise BadRequest("attempt", str(attempt), "is none of this job", f"attempts: {known}")
    ranks = sorted({worker.rank for each in workers.values() for worker in each})
    if rank is not None and rank not in ranks:
        last = ", ".join(map(str, ranks[:KNOWN_SHOWN_MAX])) or "none"
        raise BadRequest("rank", str(rank), "is no worker of this job", f"ranks: {last}")


def _offsets(text: str) -> Offsets:
    try:
        return parse_offsets(text)
    except ValueError as error:
        rule = "attempt.rank.process.offset, separated by commas"
        raise BadRequest("offsets", text, rule) from error


async def _about(
    served: tuple[Gateway, Caller],
    verb: str,
    found: Job,
    sent: tuple[str, str],
    more: Mapping[str, bool] = MappingProxyType({}),
) -> Response[Answer]:
    """Ask this of the job, with the request's key and trace."""
    (gateway, by), (key, trace) = served, sent
    body = {"job": found.job, **more}
    answer = await by.ask(verb, found.project, body, key=key, traceparent=trace)
    answer.job = found.job
    return response_of(await gateway.visible(answer))
