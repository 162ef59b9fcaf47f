"""Answers and errors as HTTP responses.

Rule: whatever goes wrong is an `Answer` with one line; a stack trace goes nowhere.
"""

from __future__ import annotations

import logging
from typing import Any

from litestar import Request
from litestar.exceptions import HTTPException
from litestar.response import Response

from headrace.client.model import Answer
from headrace.gateway.errors import GatewayError
from headrace.store.interface import Unavailable
from headrace.telemetry.logs import error_of

BODY_BYTES_MAX = 1_000_000  # below what the bus takes, headers included
TOO_LARGE = (
    f"refused: body — a request may have at most {BODY_BYTES_MAX} bytes; "
    "put large data into a volume"
)

_LOG = logging.getLogger("headrace.gateway")


def response_of(answer: Answer, *, created: bool = False) -> Response[Answer]:
    """200 or 201 when accepted; 409 for a key that was used before; 422 when refused."""
    if answer.accepted:
        return Response(answer, status_code=201 if created else 200)
    field = (answer.refusal or {}).get("field", "")
    return Response(answer, status_code=409 if field.startswith("idempotency key") else 422)


def on_gateway_error(_: Request[Any, Any, Any], error: GatewayError) -> Response[Answer]:
    """Our own errors know their status and their line."""
    after_s = error.retry_after_s
    headers = {"Retry-After": str(after_s)} if after_s else None
    return Response(error.answer(), status_code=error.status, headers=headers)


def on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[Answer]:
    """What the framework found wrong with a request."""
    line = error.detail
    if error.status_code == 413:
        line = TOO_LARGE
    elif error.status_code in (404, 405):
        line = f"{request.method} {request.url.path} is not offered here (see /schema)"
    elif isinstance(error.extra, list) and error.extra:
        first: Any = error.extra[0]
        line = f"refused: {first.get('key', 'query')} — {first.get('message', line)}"
    return Response(Answer(accepted=False, message=line), status_code=error.status_code)


def on_unavailable(_: Request[Any, Any, Any], error: Unavailable) -> Response[Answer]:
    """The log cannot be reached."""
    _LOG.warning("log not reached reason=%s", error)
    return Response(
        Answer(accepted=False, message="the log cannot be reached now; try again"), status_code=503
    )


def on_failure(request: Request[Any, Any, Any], error: Exception) -> Response[Answer]:
    """Whatever nobody expected: one line here, one line to the asker."""
    _LOG.error("request failed path=%s %s", request.url.path, error_of(error))
    line = "the gateway failed on this request; its log has one line about it"
    return Response(Answer(accepted=False, message=line), status_code=500)
