"""What is asked about join tokens and members, and the credential a member is answered with.

Rule: a token's secret never comes here, only its digest; who may be a node is the whole fleet's
business.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.admission.possession import possession_refusal
from headrace.bus.credentials import is_user_key, node_permissions, user_jwt
from headrace.bus.subjects import is_token
from headrace.client.model import joining_text
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
from headrace.runtime.asking import Asked, line, receives
from headrace.runtime.service import Receive, Request, Runtime
from headrace.vault import KEY_BYTES

USES_MAX = 1_000
LASTS_S_MIN, LASTS_S_MAX = 60, 30 * 86_400
TEXT_LENGTH_MAX = 255  # of a host's name or an address
SECOND_US = 1_000_000
NAME_RULE = "has 1 to 63 of a-z 0-9 and '-', not starting with '-'"

OWNED = "tokens and nodes belong to the whole fleet"
_DIGEST = re.compile(r"[0-9a-f]{64}")


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


class _OfMember(Asked, frozen=True, kw_only=True):
    """A body whose fields keep the rules above."""

    def refusal(self) -> Refusal | None:
        for name, (is_right, rule) in _RULES.items():
            value = getattr(self, name, None)
            if value is not None and not is_right(value):
                shown_value = "" if name == "digest" else shown(value)
                return Refusal(field=name, value=shown_value, rule=rule)
        return None


class NewToken(_OfMember, frozen=True, kw_only=True):
    """`access.create_token`."""

    token: str
    digest: str
    uses: int = 1
    lasts_s: int = 3600
    auto_approve: bool = False

    def refusal(self) -> Refusal | None:
        if not 1 <= self.uses <= USES_MAX:
            return Refusal(field="uses", value=str(self.uses), rule=f"is 1 to {USES_MAX}")
        if not LASTS_S_MIN <= self.lasts_s <= LASTS_S_MAX:
            rule = f"is {LASTS_S_MIN} s to {LASTS_S_MAX // 86_400} days"
            return Refusal(field="lasts_s", value=str(self.lasts_s), rule=rule)
        return super().refusal()


class TokenNamed(_OfMember, frozen=True, kw_only=True):
    """`access.revoke_token`."""

    token: str


class Joining(_OfMember, frozen=True, kw_only=True):
    """`access.join`, from the gateway, which hashed the token's secret. The key signed (base64)
    `joining_text` of the node and `at_s`, by its own clock.
    """

    node: str
    token: str
    digest: str
    public_key: str
    box_key: str
    at_s: int
    signature: str
    host: str = ""
    address: str = ""


class Approving(_OfMember, frozen=True, kw_only=True):
    """`access.approve`."""

    node: str
    approved: bool = True


class SigningIn(_OfMember, frozen=True, kw_only=True):
    """`access.credential`, from the gateway, which checked the key's signature."""

    node: str
    public_key: str


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


@receives(NewToken, OWNED)
def _create_token(asked: NewToken, request: Request) -> Fact | Refusal:
    return TokenRequested(
        token=asked.token,
        digest=asked.digest,
        uses=asked.uses,
        lasts_s=asked.lasts_s,
        auto_approve=asked.auto_approve,
        user=request.actor,
    )


@receives(TokenNamed, OWNED)
def _revoke_token(asked: TokenNamed, request: Request) -> Fact | Refusal:
    return TokenRevokeRequested(token=asked.token, user=request.actor)


@receives(Joining, OWNED)
def _joining(asked: Joining, _request: Request) -> Fact | Refusal:
    return JoinRequested(
        node=asked.node,
        token=asked.token,
        digest=asked.digest,
        public_key=asked.public_key,
        box_key=asked.box_key,
        host=line(asked.host, TEXT_LENGTH_MAX),
        address=line(asked.address, TEXT_LENGTH_MAX),
    )


async def _join(request: Request, runtime: Runtime) -> Fact | Refusal:
    fact = await _joining(request, runtime)
    if isinstance(fact, Refusal):
        return fact
    asked = msgspec.json.decode(request.body, type=Joining)
    refusal = possession_refusal(
        asked.public_key,
        joining_text(asked.node, asked.at_s),
        asked.signature,
        at_s=asked.at_s,
        now_us=runtime.now_us(),
    )
    return refusal or fact


@receives(Approving, OWNED)
def _approve(asked: Approving, request: Request) -> Fact | Refusal:
    return ApprovalRequested(node=asked.node, approved=asked.approved, user=request.actor)


@receives(SigningIn, OWNED)
def _credential(asked: SigningIn, _request: Request) -> Fact | Refusal:
    return CredentialRequested(node=asked.node, public_key=asked.public_key)


MEMBER_RECEIVERS: dict[str, Receive] = {
    "access.create_token": _create_token,
    "access.revoke_token": _revoke_token,
    "access.join": _join,
    "access.approve": _approve,
    "access.credential": _credential,
}
