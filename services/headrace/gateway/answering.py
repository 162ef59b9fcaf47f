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
    """The answer, under its status."""
    return Response(answer, status_code=status_of(answer, created=created))


def status_of(answer: Answer, *, created: bool = False) -> int:
    """200 or 201 when accepted; 409 for a key that was used before; 422 when refused."""
    if answer.accepted:
        return 201 if created else 200
    field = (answer.refusal or {}).get("field", "")
    return 409 if field.startswith("idempotency key") else 422


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


def on_failure(request: Request[Any, Any, Any], error: Exception) -> Response[Answer]:
    """Whatever else went wrong."""
    status, answer, after_s = failure_of(error, request.url.path)
    headers = {"Retry-After": str(after_s)} if after_s else None
    return Response(answer, status_code=status, headers=headers)


def failure_of(error: Exception, path: str) -> tuple[int, Answer, int]:
    """The status, the answer, and after how many s to ask again (0: nobody knows). Our own errors
    know them; of what nobody expected there is one line here, and one line to the asker.
    """
    if isinstance(error, GatewayError):
        return error.status, error.answer(), error.retry_after_s
    if isinstance(error, Unavailable):
        _LOG.warning("log not reached reason=%s", error)
        line = "the log cannot be reached now; try again"
        return 503, Answer(accepted=False, message=line), 0
    _LOG.error("request failed path=%s %s", path, error_of(error))
    line = "the gateway failed on this request; its log has one line about it"
    return 500, Answer(accepted=False, message=line), 0
