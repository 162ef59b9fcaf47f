"""`/v1/usage`: who used how much, and what it cost."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import FromQuery, QueryParameter
from litestar.response import Response

from headrace.client.usage_model import UsageRow
from headrace.gateway.accounting import BY, grouped, usage
from headrace.gateway.caller import By, may
from headrace.gateway.errors import BadRequest
from headrace.gateway.gateway import Gate
from headrace.gateway.listing import Paged, listed


@get(
    "/usage",
    summary="GPU time and its cost, by day, project, user, model or pool",
    opt=may("read", "usage"),
)
async def list_usage(
    *,
    gateway: Gate,
    by: By,
    grouping: Annotated[str, QueryParameter(name="by")] = "project",
    project: FromQuery[str] = "",
    user: FromQuery[str] = "",
    since_us: FromQuery[int] = 0,
    until_us: FromQuery[int] = 0,
    page: Paged,
) -> Response[list[UsageRow]]:
    """`by` names what it is added up by, separated by commas; whole days (UTC) count. What jobs hold
    now is counted up to now. Only of projects whose usage one may see.
    """
    names = [name for name in BY if name in grouping.split(",")]
    unknown = [name for name in grouping.split(",") if name not in BY]
    if unknown:
        raise BadRequest("by", unknown[0], f"is none of {', '.join(BY)}")
    by.check_seen(project)
    found = usage(
        gateway.projection, gateway.follower.now_us(), since_us=since_us, until_us=until_us
    )
    kept = {
        key: used
        for key, used in found.items()
        if project in ("", key.project)
        and user in ("", key.user)
        and by.may("read", "usage", key.project)
    }
    rows = grouped(kept, names)
    return listed(
        rows, UsageRow, page, lambda row: (*(getattr(row, n) for n in names), row.currency)
    )
