"""Answers and errors as HTTP responses.

Rule: whatever goes wrong is an `Answer` with one line; a stack trace goes nowhere.
"""

from __future__ import annotations

import errno
import logging
import re
from typing import Any

from litestar import Request
from litestar.exceptions import HTTPException
from litestar.response import Response

from headrace.client.model import Answer
from headrace.documents.wording import meant
from headrace.gateway.errors import BadRequest, GatewayError, NotReady
from headrace.runtime.inbox import NOT_TAKEN, ROOM_AFTER_S
from headrace.store.interface import NoRoom, Unavailable
from headrace.telemetry.logs import error_of

BODY_BYTES_MAX = 1_000_000  # below what the bus takes, headers included
TOO_LARGE = (
    f"refused: body — a request may have at most {BODY_BYTES_MAX} bytes; "
    "put large data into a volume"
)

SCHEMA = "/schema/openapi.json"
VALUE_SHOWN_MAX = 200  # characters

_BODY = "data"  # as the framework calls it
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")

_FULL = (errno.ENOSPC, errno.EDQUOT)
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
    return Response(
        _told(request, error), status_code=error.status_code, headers=error.headers or None
    )


def on_failure(request: Request[Any, Any, Any], error: Exception) -> Response[Answer]:
    """Whatever else went wrong."""
    status, answer, after_s = failure_of(error, request.url.path)
    return Response(answer, status_code=status, headers=headers_of(status, after_s))


def headers_of(status: int, after_s: int) -> dict[str, str]:
    """What an error says beside its answer: when to ask again, or what to ask with (RFC 9110)."""
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(after_s)} if after_s else {}


def failure_of(error: Exception, path: str) -> tuple[int, Answer, int]:
    """The status, the answer, and after how many s to ask again (0: nobody knows). Our own errors
    know them; of what nobody expected there is one line here, and one line to the asker.
    """
    if isinstance(error, GatewayError):
        return error.status, error.answer(), error.retry_after_s
    if isinstance(error, NoRoom):
        _LOG.error("log has no room reason=%s", error)
        return 503, Answer(accepted=False, message=NOT_TAKEN), ROOM_AFTER_S
    if isinstance(error, Unavailable):
        _LOG.warning("log not reached reason=%s", error)
        line = "the log cannot be reached now; try again"
        return 503, Answer(accepted=False, message=line), NotReady.retry_after_s
    if isinstance(error, OSError) and error.errno in _FULL:
        _LOG.error("disk full path=%s file=%s", path, error.filename)
        line = "the gateway's disk is full: nothing was taken; try again when there is room"
        return 503, Answer(accepted=False, message=line), ROOM_AFTER_S
    _LOG.error("request failed path=%s %s", path, error_of(error))
    line = "the gateway failed on this request; its log has one line about it"
    return 500, Answer(accepted=False, message=line), 0


def _told(request: Request[Any, Any, Any], error: HTTPException) -> Answer:
    if error.status_code == 413:
        return Answer(accepted=False, message=TOO_LARGE)
    if error.status_code in (404, 405):
        line = f"{request.method} {request.url.path} is not offered here (see {SCHEMA})"
        return Answer(accepted=False, message=line)
    if isinstance(error.extra, list) and error.extra:
        first: Any = error.extra[0]
        field, said = str(first.get("key", "query")), str(first.get("message", error.detail))
        return _misread(request, field, said)
    if error.status_code == 400:
        return BadRequest("body", "", f"is not JSON: {error.detail}").answer()
    return Answer(accepted=False, message=error.detail)


def _misread(request: Request[Any, Any, Any], field: str, said: str) -> Answer:
    """What of a query, a header or a body is not as its route has it, as every other refusal."""
    if field != _BODY:
        value = request.query_params.get(field) or request.headers.get(field, "")
        return BadRequest(field, str(value)[:VALUE_SHOWN_MAX], said).answer()
    unknown = _UNKNOWN.fullmatch(said)
    if unknown is None:
        rule = "a JSON object is needed" if said == repr(_BODY) else said
        return BadRequest("body", "", rule).answer()
    body = request.route_handler.parsed_data_field
    known = getattr(body.annotation if body else None, "__struct_fields__", ())
    instead = meant(unknown[1], "fields", known)
    return BadRequest(unknown[1], "", "unknown field", instead).answer()
