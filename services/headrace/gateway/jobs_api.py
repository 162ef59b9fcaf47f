"""`/v1/jobs`: submit, list, describe, cancel, and what workers wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from litestar import Request, delete, get, post
from litestar.params import FromPath, FromQuery, HeaderParameter, QueryParameter
from litestar.response import Response, Stream
from litestar.status_codes import HTTP_200_OK

from headrace.bundles.manifest import is_name
from headrace.bus.subjects import is_token
from headrace.client.model import (
    LOGS_END,
    LOGS_HEARTBEAT,
    MAX_PAGE,
    Answer,
    Description,
    JobPage,
)
from headrace.documents.workdir import bundle_of
from headrace.gateway import rows
from headrace.gateway.answering import response_of
from headrace.gateway.errors import BadRequest
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.logs import LogQuery, Offsets, parse_offsets
from headrace.gateway.projection import Job
from headrace.scheduling.explanation import Explanation

DEFAULT_PROJECT = "default"
LINES = "application/x-ndjson"
NOT_KEPT = "this folder is not kept here, or no longer"

Key = Annotated[str, HeaderParameter(name="Idempotency-Key")]
Trace = Annotated[str, HeaderParameter(name="traceparent")]
JobName = FromPath[str]
Index = FromPath[int | None]
Limit = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE)]
Count = Annotated[int, QueryParameter(ge=0, le=MAX_PAGE)]

_ENCODE = msgspec.json.Encoder().encode


class _Outline(msgspec.Struct):
    """What the gateway reads of a job file: whose inbox it goes to, and what has to be here."""

    project: str = DEFAULT_PROJECT
    workdir: Any = ""


_OUTLINES = msgspec.json.Decoder(_Outline)


@post("/jobs", summary="Submit a job file as JSON")
async def submit(
    gateway: Gate, request: Request[Any, Any, Any], key: Key = "", trace: Trace = ""
) -> Response[Answer]:
    """201 with the job's id once it is admitted, 422 with the refusal when it is not."""
    body = await request.body()
    try:
        outline = _OUTLINES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest("body", "", f"not a job file in JSON: {error}") from error
    bundle = bundle_of(str(outline.workdir))
    is_asked = is_token(outline.project) and is_name(bundle)
    if is_asked and not gateway.keeper.of(outline.project).has_tree(bundle):
        raise BadRequest("workdir", outline.workdir, NOT_KEPT, "send the folder again")
    answer = await gateway.asker.ask(
        "job.submit", outline.project, body, key=key, traceparent=trace
    )
    return response_of(await gateway.visible(answer), created=True)


@get("/jobs", summary="Jobs, live ones and the latest that ended")
async def list_jobs(
    *,
    gateway: Gate,
    project: FromQuery[str] = "",
    user: FromQuery[str] = "",
    state_word: Annotated[str, QueryParameter(name="state")] = "",
    group: FromQuery[str] = "",
    ended: Count = 20,
    limit: Limit = MAX_PAGE,
    before: FromQuery[int] = 0,
) -> JobPage:
    """`state` is a state word, `live` or `ended`; `before` the cursor `more` of the last page."""
    found = rows.jobs_page(
        gateway.projection,
        project=project,
        user=user,
        state=state_word,
        group=group,
        ended_max=ended,
        limit=limit,
        before=before,
    )
    return JobPage(
        jobs=[gateway.row(job) for job in found],
        as_of_us=gateway.follower.now_us(),
        position=gateway.projection.position,
        more=found[0].position if len(found) == limit else 0,
    )


@get(["/jobs/{job:str}", "/jobs/{job:str}/{index:int}"], summary="One job in full")
async def describe_job(gateway: Gate, job: JobName, index: Index = None) -> Description:
    """With its attempts, the decisions about it, and its timeline. `job` may be a prefix."""
    return await gateway.description(await gateway.job(job, index))


@delete(
    ["/jobs/{job:str}", "/jobs/{job:str}/{index:int}"],
    summary="Cancel a job",
    status_code=HTTP_200_OK,
)
async def cancel_job(
    gateway: Gate, job: JobName, index: Index = None, key: Key = "", trace: Trace = ""
) -> Response[Answer]:
    """Its workers are asked to stop, with the grace the job has. `job` may be a prefix."""
    found = await gateway.job(job, index)
    answer = await gateway.asker.ask(
        "job.cancel", found.project, {"job": found.job}, key=key, traceparent=trace
    )
    answer.job = found.job
    return response_of(await gateway.visible(answer))


@get(["/jobs/{job:str}/why", "/jobs/{job:str}/{index:int}/why"], summary="Why a job waits")
async def job_why(gateway: Gate, job: JobName, index: Index = None) -> Explanation:
    """The rule that keeps it waiting, with its numbers, as of now. `job` may be a prefix."""
    found = await gateway.job(job, index)
    if found.tasks:
        word = "trial" if found.kind_of_group == "sweep" else "task"
        raise BadRequest("job", found.job, f"is many; name one {word}", f"{found.job}/0")
    live = await gateway.asker.why(found.job) if not found.ended_at_us else None
    if live is not None:
        return live
    row = gateway.row(found)
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
)
async def job_logs(
    *,
    gateway: Gate,
    job: JobName,
    index: Index = None,
    rank: FromQuery[int | None] = None,
    role: FromQuery[str] = "",
    process: FromQuery[int | None] = None,
    attempt: FromQuery[int | None] = None,
    follow: FromQuery[bool] = False,
    offsets: FromQuery[str] = "",
) -> Stream:
    """`follow` goes on until the job has ended. `offsets` is where each process goes on:
    `attempt.rank.process.offset,…`.
    """
    found = await gateway.job(job, index)
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
        offsets=_offsets(offsets),
    )
    return Stream(_lines(gateway, query, found), media_type=LINES)


async def _lines(gateway: Gateway, query: LogQuery, job: Job) -> AsyncIterator[bytes]:
    workers = await gateway.workers(job.job)
    async for piece in gateway.logs.pieces(query, job, workers):
        yield _ENCODE(piece) + b"\n" if piece else LOGS_HEARTBEAT
    yield LOGS_END


def _role(job: Job, role: str) -> str:
    known = [each.name for each in job.gang.roles]
    if role and role not in known:
        raise BadRequest("role", role, "is not a role of this job", ", ".join(known) or "none")
    return role


def _offsets(text: str) -> Offsets:
    try:
        return parse_offsets(text)
    except ValueError as error:
        rule = "attempt.rank.process.offset, separated by commas"
        raise BadRequest("offsets", text, rule) from error
