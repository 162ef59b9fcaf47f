"""What is asked about join tokens and members, and the credential a member is answered with.

Rule: a token's secret never comes here, only its digest; who may be a node is the whole fleet's
business.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from headrace.bus.credentials import is_user_key, node_permissions, user_jwt
from headrace.bus.subjects import FLEET, is_token
from headrace.documents.refusing import shown
from headrace.events import Fact, Refusal
from headrace.events.members import (
    ApprovalRequested,
    CredentialIssued,
    CredentialRequested,
    JoinRequested,
    TokenRequested,
    TokenRevokeRequested,
)
from headrace.runtime.service import Receive, Request, Runtime
from headrace.vault import KEY_BYTES

USES_MAX = 1_000
LASTS_S_MIN, LASTS_S_MAX = 60, 30 * 86_400
TEXT_LENGTH_MAX = 255  # of a host's name or an address
SECOND_US = 1_000_000
NAME_RULE = "has 1 to 63 of a-z 0-9 and '-', not starting with '-'"

_DIGEST = re.compile(r"[0-9a-f]{64}")


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`access.create_token`."""

    token: str
    digest: str
    uses: int = 1
    lasts_s: int = 3600
    auto_approve: bool = False


class TokenNamed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`access.revoke_token`."""

    token: str


class Joining(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`access.join`, from the gateway, which hashed the token's secret."""

    node: str
    token: str
    digest: str
    public_key: str
    box_key: str
    host: str = ""
    address: str = ""


class Approving(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`access.approve`."""

    node: str
    approved: bool = True


class SigningIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`access.credential`, from the gateway, which checked the key's signature."""

    node: str
    public_key: str


B = TypeVar("B", NewToken, TokenNamed, Joining, Approving, SigningIn)


def member_receivers() -> dict[str, Receive]:
    """What receives each verb."""
    return {
        "access.create_token": _create_token,
        "access.revoke_token": _revoke_token,
        "access.join": _join,
        "access.approve": _approve,
        "access.credential": _credential,
    }


def credential_of(event: CredentialIssued, account_seed: str) -> dict[str, Any]:
    """The JWT that says on the bus what the member's key may do, and until when. Not a secret."""
    jwt = user_jwt(
        account_seed,
        event.public_key,
        event.node,
        node_permissions(event.node),
        expires_at_s=event.issued_at_us // SECOND_US + event.lasts_s,
    )
    return {"jwt": jwt}


async def _create_token(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, NewToken)
    if isinstance(asked, Refusal):
        return asked
    if not 1 <= asked.uses <= USES_MAX:
        return Refusal(field="uses", value=str(asked.uses), rule=f"is 1 to {USES_MAX}")
    if not LASTS_S_MIN <= asked.lasts_s <= LASTS_S_MAX:
        rule = f"is {LASTS_S_MIN} s to {LASTS_S_MAX // 86_400} days"
        return Refusal(field="lasts_s", value=str(asked.lasts_s), rule=rule)
    return TokenRequested(
        token=asked.token,
        digest=asked.digest,
        uses=asked.uses,
        lasts_s=asked.lasts_s,
        auto_approve=asked.auto_approve,
        user=request.actor,
    )


async def _revoke_token(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, TokenNamed)
    if isinstance(asked, Refusal):
        return asked
    return TokenRevokeRequested(token=asked.token, user=request.actor)


async def _join(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, Joining)
    if isinstance(asked, Refusal):
        return asked
    return JoinRequested(
        node=asked.node,
        token=asked.token,
        digest=asked.digest,
        public_key=asked.public_key,
        box_key=asked.box_key,
        host=_line(asked.host),
        address=_line(asked.address),
    )


async def _approve(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, Approving)
    if isinstance(asked, Refusal):
        return asked
    return ApprovalRequested(node=asked.node, approved=asked.approved, user=request.actor)


async def _credential(request: Request, runtime: Runtime) -> Fact | Refusal:
    del runtime
    asked = _decoded(request, SigningIn)
    if isinstance(asked, Refusal):
        return asked
    return CredentialRequested(node=asked.node, public_key=asked.public_key)


def _decoded(request: Request, kind: type[B]) -> B | Refusal:
    """The body, if it is well formed and stands for the fleet."""
    if request.project != FLEET:
        rule = "tokens and nodes belong to the whole fleet"
        return Refusal(field="project", value=request.project, rule=rule, instead=FLEET)
    try:
        asked = msgspec.json.decode(request.body or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        names = ", ".join(kind.__struct_fields__)
        rule = shown(error) or "cannot be read"
        return Refusal(field="request", rule=rule, instead=f"a JSON object with {names}")
    return _wrong(asked) or asked


def _wrong(asked: NewToken | TokenNamed | Joining | Approving | SigningIn) -> Refusal | None:
    fields = msgspec.structs.asdict(asked)
    for name, (is_right, rule) in _RULES.items():
        if name in fields and not is_right(fields[name]):
            value = "" if name == "digest" else shown(fields[name])
            return Refusal(field=name, value=value, rule=rule)
    return None


def _is_box_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False


_RULES: dict[str, tuple[Callable[[str], bool], str]] = {
    "node": (is_token, NAME_RULE),
    "token": (is_token, NAME_RULE),
    "digest": (lambda text: _DIGEST.fullmatch(text) is not None, "is not a SHA-256 in hex"),
    "public_key": (is_user_key, "is not the public NKey of a user (U…)"),
    "box_key": (_is_box_key, f"is not {KEY_BYTES} bytes in base64"),
}


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:TEXT_LENGTH_MAX])
