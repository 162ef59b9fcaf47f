"""`POST /v1/jobs`: what comes by the hundred a second is answered without the framework.

Rule: that way goes what programs send: a body of known length, each header once, no query. All else
is the framework's. Both let in by the same judge, submit by the same function and answer the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from litestar.status_codes import HTTP_400_BAD_REQUEST
from litestar.types import ASGIApp, Receive, Scope, Send

from headrace.bundles.manifest import is_name
from headrace.bus.subjects import is_token
from headrace.client.model import Answer
from headrace.documents.workdir import bundle_of
from headrace.gateway.answering import BODY_BYTES_MAX, failure_of, headers_of, status_of
from headrace.gateway.caller import Caller, may
from headrace.gateway.errors import BadRequest
from headrace.gateway.gateway import Gateway
from headrace.gateway.letting_in import Knock, let_in

DEFAULT_PROJECT = "default"
NOT_KEPT = "this folder is not kept here, or no longer"
PATH = "/v1/jobs"
SUBMIT = may("submit", "job")
LENGTH_DIGITS_MAX = 7

_TYPE = (b"content-type", b"application/json")
_ENCODE = msgspec.json.Encoder().encode


class Sent(NamedTuple):
    """What came beside the job file."""

    key: str
    traceparent: str


class _Outline(msgspec.Struct):
    """What the gateway reads of a job file: whose inbox it goes to, and what has to be here."""

    project: str = DEFAULT_PROJECT
    workdir: Any = ""


_OUTLINES = msgspec.json.Decoder(_Outline)


async def submitted(gateway: Gateway, by: Caller, body: bytes, sent: Sent) -> Answer:
    """The answer to a job file, once lists show the job. Raises `GatewayError`."""
    try:
        outline = _OUTLINES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("body", "", f"not a job file in JSON: {error}") from error
    by.check(outline.project)
    bundle = bundle_of(str(outline.workdir))
    is_asked = is_token(outline.project) and is_name(bundle)
    if is_asked and not gateway.keeper.of(outline.project).has_tree(bundle):
        raise BadRequest("workdir", outline.workdir, NOT_KEPT, "send the folder again")
    key, trace = sent
    answer = await by.ask("job.submit", outline.project, body, key=key, traceparent=trace)
    return await gateway.visible(answer)


def with_submissions(gateway: Gateway, api: ASGIApp) -> ASGIApp:
    """The same application, which answers plain submissions itself."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = _plain(scope)
        if headers is None:
            await api(scope, receive, send)
            return
        try:
            status, answer, after_s = await _submit(gateway, headers, scope, receive)
        except Exception as error:
            status, answer, after_s = failure_of(error, PATH)
        body = _ENCODE(answer)
        told = [_TYPE, (b"content-length", b"%d" % len(body))]
        if status >= HTTP_400_BAD_REQUEST:
            of_error = headers_of(status, after_s).items()
            told += [(name.lower().encode(), value.encode()) for name, value in of_error]
        await send({"type": "http.response.start", "status": status, "headers": told})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return answer


class _Headers(Mapping[str, str]):
    """A request's headers, by their names in any case."""

    def __init__(self, given: Iterable[tuple[bytes, bytes]]) -> None:
        self._given = {name.decode("latin-1"): value.decode("latin-1") for name, value in given}

    def __getitem__(self, name: str) -> str:
        return self._given[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def _plain(scope: Scope) -> _Headers | None:
    """The headers of a submission that is answered here."""
    if scope.get("path") != PATH or scope.get("method") != "POST" or scope["query_string"]:
        return None
    given = list(scope["headers"])
    headers = _Headers(given)
    length = headers.get("content-length", "")
    is_known = length.isdecimal() and len(length) <= LENGTH_DIGITS_MAX
    is_plain = len(headers) == len(given) and "transfer-encoding" not in headers
    return headers if is_plain and is_known and int(length) <= BODY_BYTES_MAX else None


async def _submit(
    gateway: Gateway, headers: _Headers, scope: Scope, receive: Receive
) -> tuple[int, Answer, int]:
    client = scope["client"]
    knock = Knock(headers, "POST", client[0] if client else "")
    by = await let_in(gateway, knock, SUBMIT["may"])
    sent = Sent(headers.get("idempotency-key", ""), headers.get("traceparent", ""))
    answer = await submitted(gateway, by, await _body(receive), sent)
    return status_of(answer, created=True), answer, 0


async def _body(receive: Receive) -> bytes:
    """The whole body; its length was checked. Raises `BadRequest` when its sender is gone before."""
    pieces, is_more = [], True
    while is_more:
        message: Any = await receive()
        if message["type"] != "http.request":
            raise BadRequest("body", "", "ended before it was whole")
        pieces.append(message.get("body", b""))
        is_more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
