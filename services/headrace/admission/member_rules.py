"""Join tokens and members: which machine may be which node, and who says so.

Rule: a token lets in as many keys as it says, until it expires; the same key again is the same
machine asking again. A node's name belongs to one key until the node is deleted, and a key to one
node or publisher; that of a deleted node may join again.
"""

from __future__ import annotations

from headrace.admission.hearing import DELETED_NODE, Hearing
from headrace.admission.state import Member, Token
from headrace.events import Decision, Refusal
from headrace.events.members import (
    ApprovalRefused,
    ApprovalRequested,
    CredentialIssued,
    CredentialRefused,
    CredentialRequested,
    JoinRefused,
    JoinRequested,
    JoinWaiting,
    MemberAdmitted,
    MemberRejected,
    TokenCreated,
    TokenRefused,
    TokenRequested,
    TokenRevoked,
    TokenRevokeRequested,
)

SECOND_US = 1_000_000
ANOTHER = "make one with headrace node token"


def create_token(hearing: Hearing, position: int, event: TokenRequested) -> Decision:
    """Machines may join with it from now on. The same token again is the same token."""
    del position
    known = hearing.token(event.token)
    if known is not None and known.digest != event.digest:
        refusal = Refusal(field="token", value=event.token, rule="exists already")
        return TokenRefused(token=event.token, refusal=refusal)
    return TokenCreated(
        token=event.token,
        digest=event.digest,
        uses=event.uses,
        expires_at_us=hearing.now_us + event.lasts_s * SECOND_US,
        auto_approve=event.auto_approve,
    )


def revoke_token(hearing: Hearing, position: int, event: TokenRevokeRequested) -> Decision:
    """Nobody joins with it any more."""
    del position
    if hearing.token(event.token) is None:
        refusal = Refusal(field="token", value=event.token, rule="is not known")
        return TokenRefused(token=event.token, refusal=refusal)
    return TokenRevoked(token=event.token)


def join(hearing: Hearing, position: int, event: JoinRequested) -> Decision:
    """The machine is let in, waits for an administrator, or is refused."""
    del position
    member, token = hearing.member(event.node), hearing.token(event.token)
    refusal = _token_refusal(event, token)
    if member is None or member.public_key != event.public_key:  # else the same machine asks again
        refusal = refusal or _spent(hearing, event, token) or _name_refusal(hearing, event, member)
        refusal = refusal or _key_refusal(hearing, event)
    if refusal is not None or token is None:
        return JoinRefused(
            node=event.node,
            token=event.token,
            public_key=event.public_key,
            refusal=refusal or _unknown(event.token),
        )
    if token.auto_approve or (member is not None and member.approved):
        return _admitted(event.node, event, event.token)
    return JoinWaiting(
        node=event.node,
        token=event.token,
        public_key=event.public_key,
        box_key=event.box_key,
        host=event.host,
    )


def approve(hearing: Hearing, position: int, event: ApprovalRequested) -> Decision:
    """The machine that waits may be this node, or may not."""
    del position
    member = hearing.member(event.node)
    if member is not None and event.approved:
        return _admitted(event.node, member, member.token)
    if member is not None and not member.approved:
        return MemberRejected(node=event.node, public_key=member.public_key)
    if member is None:
        rule = "does not wait for approval"
        refusal = Refusal(field="node", value=event.node, rule=rule, unknown="waiting node")
    else:
        rule, instead = "has joined", f"headrace node delete {event.node}"
        refusal = Refusal(field="node", value=event.node, rule=rule, instead=instead)
    return ApprovalRefused(node=event.node, refusal=refusal)


def issue(hearing: Hearing, position: int, event: CredentialRequested) -> Decision:
    """A member may sign in to the bus, for a bounded time."""
    del position
    member = hearing.member(event.node)
    if member is not None and member.public_key == event.public_key and member.approved:
        return CredentialIssued(
            node=event.node,
            public_key=event.public_key,
            issued_at_us=hearing.now_us,
            lasts_s=hearing.state.setting("credential_lasts_s"),
        )
    rule, instead = "is no member with this key", "was it deleted? then join it again"
    if member is not None and member.public_key == event.public_key:
        rule, instead = "waits for approval", f"headrace node approve {event.node}"
    refusal = Refusal(field="node", value=event.node, rule=rule, instead=instead)
    return CredentialRefused(node=event.node, public_key=event.public_key, refusal=refusal)


def _admitted(node: str, machine: JoinRequested | Member, token: str) -> MemberAdmitted:
    return MemberAdmitted(
        node=node,
        public_key=machine.public_key,
        box_key=machine.box_key,
        token=token,
        host=machine.host,
    )


def _token_refusal(event: JoinRequested, token: Token | None) -> Refusal | None:
    if token is None or token.digest != event.digest:
        return _unknown(event.token)
    return None


def _spent(hearing: Hearing, event: JoinRequested, token: Token | None) -> Refusal | None:
    """A refusal when the token lets nobody in any more."""
    if token is None:
        return None
    if hearing.now_us >= token.expires_at_us:
        rule = f"expired {(hearing.now_us - token.expires_at_us) // SECOND_US} s ago"
        return Refusal(field="token", value=event.token, rule=rule, instead=ANOTHER)
    used = hearing.used_by(event.token)
    if event.public_key in used:
        rule = f"let this machine in before, as node {used[event.public_key]}"
        return Refusal(field="token", value=event.token, rule=rule, instead=ANOTHER)
    if len(used) >= token.uses:
        by = next(reversed(used.values()))
        rule = f"was used already, last by node {by}"
        instead = f"{ANOTHER}; if {by} is not yours the token was stolen: headrace node delete {by}"
        return Refusal(field="token", value=event.token, rule=rule, instead=instead)
    return None


def _name_refusal(hearing: Hearing, event: JoinRequested, member: Member | None) -> Refusal | None:
    if member is not None or event.node in hearing.state.nodes:
        host = member.host if member is not None else hearing.state.nodes[event.node].said.host
        rule = f"is the name of another machine ({host or 'host not known'})"
        instead = f"join with --name another, or first headrace node delete {event.node}"
        return Refusal(field="node", value=event.node, rule=rule, instead=instead)
    limit = hearing.state.setting("members_max")
    if hearing.members >= limit:
        rule = f"a fleet has at most {limit} members, those that wait included"
        return Refusal(field="node", value=event.node, rule=rule)
    return None


def _key_refusal(hearing: Hearing, event: JoinRequested) -> Refusal | None:
    holder = hearing.key_holder(event.public_key)
    if holder in ("", DELETED_NODE):
        return None
    if holder.startswith("publisher "):
        holder = "a publisher"
    rule, instead = f"is that of {holder}", "join from an empty node folder, which makes another"
    return Refusal(field="public_key", rule=rule, instead=instead)


def _unknown(token: str) -> Refusal:
    rule = "is not a token of this platform, or was revoked"
    return Refusal(field="token", value=token, rule=rule, instead=ANOTHER)
