"""`/v1/webhooks`: which there are, how far each has come, and their end. They are made as documents."""

from __future__ import annotations

from litestar import delete, get
from litestar.params import FromPath, FromQuery
from litestar.response import Response
from litestar.status_codes import HTTP_200_OK

from headrace.client.model import Answer
from headrace.client.webhook_model import WebhookRow
from headrace.gateway.answering import response_of
from headrace.gateway.caller import By, may
from headrace.gateway.gateway import Gate
from headrace.gateway.jobs_api import Key
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


@delete(
    "/webhooks/{project:str}/{name:str}",
    summary="Tell this address no more",
    status_code=HTTP_200_OK,
    opt=may("apply", "webhook"),
)
async def delete_webhook(
    gateway: Gate, by: By, project: FromPath[str], name: FromPath[str], key: Key = ""
) -> Response[Answer]:
    """What happened meanwhile is told to nobody, should it be made again."""
    by.check(project)
    answer = await by.ask("webhook.delete", project, {"name": name}, key=key)
    return response_of(await gateway.visible(answer))
