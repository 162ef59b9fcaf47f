"""`/v1/webhooks`: which there are, and how far each has come. They are made and end as documents."""

from __future__ import annotations

from litestar import get
from litestar.params import FromQuery
from litestar.response import Response

from headrace.client.webhook_model import WebhookRow
from headrace.gateway.caller import By, may
from headrace.gateway.gateway import Gate
from headrace.gateway.listing import Paged, listed_of_projects


@get(
    "/webhooks",
    summary="Webhooks, how far each has come, and why one is not taken",
    opt=may("read", "webhook"),
)
async def list_webhooks(
    gateway: Gate, by: By, page: Paged, project: FromQuery[str] = ""
) -> Response[list[WebhookRow]]:
    """In order of project and name. Their secrets were shown once, to who made them."""
    rows = gateway.projection.webhooks.values()
    return listed_of_projects(rows, WebhookRow, by, page, project)
