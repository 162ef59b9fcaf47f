"""Join tokens, machines that join, who lets them in, and what lets them sign in to the bus.

Rule: a machine's two routes need no token of ours, so both are rate-limited. A join token's secret
ends here: everything behind this door sees its digest. What a machine signs is worth nothing to
others, for only the holder of its key can use the answer.
"""

from __future__ import annotations

import base64
import time
from typing import Any

import msgspec
from litestar import Request, delete, get, post
from litestar.params import FromPath, JSONBody
from litestar.response import Response
from litestar.status_codes import HTTP_200_OK

from headrace import vault
from headrace.bus.credentials import user_key_bytes
from headrace.bus.subjects import FLEET
from headrace.client.model import Answer, signed_text
from headrace.events.members import JoinWaiting
from headrace.gateway.answering import response_of
from headrace.gateway.caller import OPEN, By, may
from headrace.gateway.errors import BadRequest, TooMany
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.jobs_api import Key
from headrace.gateway.listing import Paged, listed
from headrace.gateway.projection import Token
from headrace.trust import join_token
from headrace.trust.join_token import JoinTokenRow

CLOCK_S_MAX = 300  # by which the clock of a machine that signs may differ from ours
WAITING_STATUS = 202
MACHINE = "machine"  # who joins, or signs in, by what it proves


class NewToken(msgspec.Struct, forbid_unknown_fields=True):
    """A join token whose secret the asker keeps; `digest` is the secret's SHA-256 in hex."""

    token: str
    digest: str
    uses: int = 1
    lasts_s: int = 3600
    auto_approve: bool = False


class Approval(msgspec.Struct, forbid_unknown_fields=True):
    """Whether the machine that waits may be this node."""

    approved: bool = True


class Joining(msgspec.Struct, forbid_unknown_fields=True):
    """A machine wants to be `node`: its join token, its public keys, of which the first signed
    (base64) `joining_text(node, at_s)`, and its name for people.
    """

    node: str
    token: str
    public_key: str
    box_key: str
    at_s: int
    signature: str
    host: str = ""


class SigningIn(msgspec.Struct, forbid_unknown_fields=True):
    """A member's key signed (base64) `signed_text(node, at_s)`, `at_s` by its clock."""

    node: str
    public_key: str
    at_s: int
    signature: str


@post(
    "/join-tokens",
    summary="Let machines join with a token of which only you have the secret",
    opt=may("join", "node"),
)
async def create_join_token(
    gateway: Gate, by: By, data: JSONBody[NewToken], key: Key = ""
) -> Response[Answer]:
    """`pin` in the answer belongs behind the token when the platform's certificate is its own."""
    by.check()
    body = msgspec.json.encode(data)
    answer = await by.ask("access.create_token", FLEET, body, key=key)
    answer.pin = gateway.trust.pin
    return response_of(await gateway.visible(answer), created=True)


@get("/join-tokens", summary="Join tokens, who used them, and until when", opt=may("join", "node"))
async def list_join_tokens(gateway: Gate, by: By, page: Paged) -> Response[list[JoinTokenRow]]:
    """The latest first. No secret and no digest is in it."""
    by.check()
    now_us = time.time_ns() // 1000
    rows = [_row(token, now_us) for token in gateway.projection.tokens.values()]
    return listed(rows, JoinTokenRow, page, lambda row: (-row.created_at_us, row.token))


@delete(
    "/join-tokens/{token:str}",
    summary="Take a join token back",
    status_code=HTTP_200_OK,
    opt=may("join", "node"),
)
async def revoke_join_token(
    gateway: Gate, by: By, token: FromPath[str], key: Key = ""
) -> Response[Answer]:
    """By its id, the eight digits after `hrj_`. Who has joined with it stays."""
    by.check()
    answer = await by.ask("access.revoke_token", FLEET, {"token": token}, key=key)
    return response_of(await gateway.visible(answer))


@post(
    "/nodes/{node:str}/approval",
    summary="Let a machine in that waits to be this node, or turn it away",
    status_code=HTTP_200_OK,
    opt=may("join", "node"),
)
async def approve_node(
    gateway: Gate, by: By, node: FromPath[str], data: JSONBody[Approval], key: Key = ""
) -> Response[Answer]:
    """`change` in the answer is approved or rejected."""
    by.check()
    body = {"node": node, "approved": data.approved}
    answer = await by.ask("access.approve", FLEET, body, key=key)
    return response_of(await gateway.visible(answer))


@post("/join", summary="A machine proves its join token, once", opt=OPEN)
async def join(
    gateway: Gate, request: Request[Any, Any, Any], data: JSONBody[Joining]
) -> Response[Answer]:
    """`change` in the answer is waiting or approved; then `/v1/credential`."""
    address = limited(gateway, request)
    try:
        token = join_token.parse(data.token)
    except ValueError as error:
        raise BadRequest("token", "", str(error)) from None
    body = {
        "node": data.node,
        "token": token.id,
        "digest": token.digest,
        "public_key": data.public_key,
        "box_key": data.box_key,
        "at_s": data.at_s,
        "signature": data.signature,
        "host": data.host,
        "address": address,
    }
    answer = await gateway.asker.ask("access.join", FLEET, body, actor=MACHINE)
    return response_of(await gateway.visible(answer))


@post("/credential", summary="A member asks for leave to sign in to the bus", opt=OPEN)
async def credential(
    gateway: Gate, request: Request[Any, Any, Any], data: JSONBody[SigningIn]
) -> Response[Answer]:
    """202 while it waits for approval; 422 when it is no member. Asked again before it expires."""
    limited(gateway, request)
    _check_signature(data)
    waiting: JoinWaiting | None = gateway.projection.waiting.get(data.node)
    if waiting is not None and waiting.public_key == data.public_key:
        line = f"{data.node} waits for approval: headrace node approve {data.node}"
        return Response(
            Answer(accepted=False, change="waiting", message=line), status_code=WAITING_STATUS
        )
    body = {"node": data.node, "public_key": data.public_key}
    answer = await gateway.asker.ask("access.credential", FLEET, body, actor=MACHINE)
    if answer.accepted:
        answer.bus = gateway.trust.bus_url
        answer.grant_key = base64.b64encode(gateway.trust.grant_key).decode()
    return response_of(answer)


def limited(gateway: Gateway, request: Request[Any, Any, Any]) -> str:
    """Where the request came from. Raises `TooMany` when too many came from there."""
    address = request.client.host if request.client else ""
    if not gateway.limiter.takes(address):
        raise TooMany(
            "too many keys are proven from this address at once; this one tries again soon"
        )
    return address


def _check_signature(asked: SigningIn) -> None:
    """Raises `BadRequest`."""
    off_s = asked.at_s - int(time.time())
    if abs(off_s) > CLOCK_S_MAX:
        rule = f"is {abs(off_s)} s {'ahead of' if off_s > 0 else 'behind'} the platform's clock"
        raise BadRequest("clock", "", rule, "set it by NTP (headrace doctor)")
    try:
        key = user_key_bytes(asked.public_key)
        signature = base64.b64decode(asked.signature, validate=True)
        is_right = vault.verify(key, signed_text(asked.node, asked.at_s), signature)
    except ValueError:
        is_right = False
    if not is_right:
        raise BadRequest("signature", "", "is not that of this key over this node and time")


def _row(token: Token, now_us: int) -> JoinTokenRow:
    created, state = token.created, "open"
    if token.revoked:
        state = "revoked"
    elif len(token.used_by) >= created.uses:
        state = "used"
    elif now_us >= created.expires_at_us:
        state = "expired"
    return JoinTokenRow(
        token=created.token,
        state=state,
        uses=created.uses,
        nodes=list(token.used_by.values()),
        auto_approve=created.auto_approve,
        created_at_us=token.created_at_us,
        expires_at_us=created.expires_at_us,
    )
