"""Join tokens and nodes: which machines may take part, and who let them.

Rule: a token is known by the digest of its secret alone; a node by its public keys. The private
halves and the secret are in no event. What a member has and does is told by `node.*`.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.events.base import Decision, Fact, Refusal


class TokenRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="access.token_requested.v1"
):
    """An administrator made a join token. `token` is its public id, `digest` the SHA-256 of its
    secret in hex; it may be proven by `uses` machines within `lasts_s`; `auto_approve` lets them in
    at once.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "token/{token}"
    token: str
    digest: str
    uses: int = 1
    lasts_s: int = 3600
    auto_approve: bool = False
    user: str = ""


class TokenCreated(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.token_created.v1"
):
    """Machines may join with it until `expires_at_us`."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "token/{token}"
    token: str
    digest: str
    uses: int
    expires_at_us: int
    auto_approve: bool = False


class TokenRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.token_refused.v1"
):
    """The token was not made or not revoked, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "token/{token}"
    token: str
    refusal: Refusal


class TokenRevokeRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="access.token_revoke_requested.v1"
):
    """An administrator takes a token back."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "token/{token}"
    token: str
    user: str = ""


class TokenRevoked(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.token_revoked.v1"
):
    """Nobody joins with it any more; who has joined stays."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "token/{token}"
    token: str


class JoinRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="access.join_requested.v1"
):
    """A machine proved the token with this id and digest, and wants to be `node`.

    `public_key` is the NKey (`U…`) it signs in to the bus with, `box_key` (X25519, base64) what
    launches for it are sealed to; `host` its own name and `address` where the gateway heard it, for
    people.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    token: str
    digest: str
    public_key: str
    box_key: str
    host: str = ""
    address: str = ""


class JoinWaiting(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.join_waiting.v1"
):
    """The token is good; the machine waits for `headrace node approve`."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    token: str
    public_key: str
    box_key: str
    host: str = ""


class JoinRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.join_refused.v1"
):
    """The machine may not join, and why. `public_key` tells who tried."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    token: str
    public_key: str
    refusal: Refusal


class ApprovalRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="access.approval_requested.v1"
):
    """An administrator lets in the machine that waits as `node`, or turns it away."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    approved: bool
    user: str = ""


class MemberAdmitted(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.member_admitted.v1"
):
    """The holder of these keys is `node` from here on, and nobody else. `token` (when its token
    said so) let it in, or an administrator did.
    """

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    public_key: str
    box_key: str
    token: str = ""
    host: str = ""


class MemberRejected(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.member_rejected.v1"
):
    """The machine that waited was turned away."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    public_key: str


class ApprovalRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.approval_refused.v1"
):
    """There is nothing to approve, and why."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    refusal: Refusal


class CredentialRequested(
    Fact, frozen=True, kw_only=True, omit_defaults=True, tag="access.credential_requested.v1"
):
    """A member asked, by a signature of its key, for leave to sign in to the bus."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    public_key: str


class CredentialIssued(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.credential_issued.v1"
):
    """The member may sign in to the bus for `lasts_s` from `issued_at_us` on, as `node` alone."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    public_key: str
    issued_at_us: int
    lasts_s: int


class CredentialRefused(
    Decision, frozen=True, kw_only=True, omit_defaults=True, tag="access.credential_refused.v1"
):
    """The key is not, or not yet, or no longer that of a member."""

    owner: ClassVar[str] = "admission"
    stream: ClassVar[str] = "member/{node}"
    node: str
    public_key: str
    refusal: Refusal
