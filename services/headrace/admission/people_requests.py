"""What is asked about users, roles and API tokens, and what a door reports of who was refused.

Rule: whether the asker may ask is judged at the door that knows who it is; here the form is. A
token's secret never comes here, only its digest.
"""

from __future__ import annotations

import re

import msgspec

from headrace.access.names import (
    GROUP_RULE,
    is_group,
    is_service,
    member_refusal,
    person_refusal,
    scopes_refusal,
    user_refusal,
)
from headrace.access.table import ROLES
from headrace.bus.subjects import is_token
from headrace.documents.refusing import shown
from headrace.events import Fact, Refusal
from headrace.events.people import (
    AccessDenied,
    AccessRead,
    AccessSignedIn,
    Account,
    ApiTokenRequested,
    ApiTokenRevokeRequested,
    Grant,
    RoleGrantRequested,
    RoleRevokeRequested,
    UserRemoveRequested,
    UserSetRequested,
)
from headrace.runtime.asking import Asked, line, receives
from headrace.runtime.service import Receive, Request

LASTS_S_MIN, LASTS_S_MAX = 60, 10 * 366 * 86_400
GROUPS_MAX = 100  # of one user
TEXT_LENGTH_MAX = 128  # of what a token is for, or of what is on record of a refusal

OWNED = "users, roles and tokens belong to the whole fleet"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class SetUser(Asked, frozen=True, kw_only=True):
    """`user.set`."""

    user: str
    account: Account

    def refusal(self) -> Refusal | None:
        account = self.account
        wrong = next((group for group in account.groups if not is_group(group)), None)
        if wrong is not None or len(account.groups) > GROUPS_MAX:
            rule = f"{GROUP_RULE}, and a user is in at most {GROUPS_MAX}"
            return Refusal(field="groups", value=shown(wrong), rule=rule)
        if account.acts_for and not is_service(self.user):
            return Refusal(field="acts_for", rule="only a service acts for others")
        if account.groups and is_service(self.user):
            return Refusal(field="groups", rule="a service is in none: give it roles of its own")
        return user_refusal(self.user)


class UserNamed(Asked, frozen=True, kw_only=True):
    """`user.remove`."""

    user: str

    def refusal(self) -> Refusal | None:
        return user_refusal(self.user)


class GiveRole(Asked, frozen=True, kw_only=True):
    """`role.grant` and `role.revoke`."""

    member: str
    role: str
    scope: str = ""

    def refusal(self) -> Refusal | None:
        if self.role not in ROLES:
            rule = f"is none of {', '.join(ROLES)}"
            return Refusal(field="role", value=shown(self.role), rule=rule)
        return member_refusal(self.member)


class NewApiToken(Asked, frozen=True, kw_only=True):
    """`token.create`."""

    token: str
    digest: str
    user: str
    name: str = ""
    scopes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    lasts_s: int = 0

    def refusal(self) -> Refusal | None:
        if not is_token(self.token) or not _DIGEST.fullmatch(self.digest):
            return Refusal(field="token", rule="is an id, and the SHA-256 of it in hex")
        if self.lasts_s and not LASTS_S_MIN <= self.lasts_s <= LASTS_S_MAX:
            rule = f"is {LASTS_S_MIN} s to {LASTS_S_MAX // 86_400} days, or 0: until revoked"
            return Refusal(field="lasts_s", value=str(self.lasts_s), rule=rule)
        if len(self.name) > TEXT_LENGTH_MAX or not self.name.isprintable():
            rule = f"has at most {TEXT_LENGTH_MAX} printable characters"
            return Refusal(field="name", value=shown(self.name), rule=rule)
        return user_refusal(self.user) or scopes_refusal(self.scopes, self.projects)


class ApiTokenNamed(Asked, frozen=True, kw_only=True):
    """`token.revoke`."""

    token: str


class Denied(Asked, frozen=True, kw_only=True):
    """`access.denied`: what a door refused."""

    user: str
    what: str
    scope: str = ""
    address: str = ""
    count: int = 1


class SignedIn(Asked, frozen=True, kw_only=True):
    """`access.signed_in`: whom an identity provider vouched for."""

    user: str
    groups: tuple[str, ...] = ()

    def refusal(self) -> Refusal | None:
        return person_refusal(self.user)


class Read(Asked, frozen=True, kw_only=True):
    """`access.read`: somebody is about to read what another's job wrote."""

    job: str
    what: str = "logs"


@receives(SetUser, OWNED)
def _set_user(asked: SetUser, request: Request) -> Fact | Refusal:
    return UserSetRequested(user=asked.user, account=asked.account, by=request.actor)


@receives(UserNamed, OWNED)
def _remove_user(asked: UserNamed, request: Request) -> Fact | Refusal:
    return UserRemoveRequested(user=asked.user, by=request.actor)


@receives(GiveRole, OWNED)
def _grant(asked: GiveRole, request: Request) -> Fact | Refusal:
    grant = Grant(role=asked.role, scope=asked.scope)
    return RoleGrantRequested(member=asked.member, grant=grant, by=request.actor)


@receives(GiveRole, OWNED)
def _revoke(asked: GiveRole, request: Request) -> Fact | Refusal:
    grant = Grant(role=asked.role, scope=asked.scope)
    return RoleRevokeRequested(member=asked.member, grant=grant, by=request.actor)


@receives(NewApiToken, OWNED)
def _create_token(asked: NewApiToken, request: Request) -> Fact | Refusal:
    return ApiTokenRequested(**msgspec.structs.asdict(asked), by=request.actor)


@receives(ApiTokenNamed, OWNED)
def _revoke_token(asked: ApiTokenNamed, request: Request) -> Fact | Refusal:
    return ApiTokenRevokeRequested(token=asked.token, by=request.actor)


@receives(Denied, OWNED)
def _denied(asked: Denied, _request: Request) -> Fact | Refusal:
    texts = {
        name: line(getattr(asked, name), TEXT_LENGTH_MAX)
        for name in ("user", "what", "scope", "address")
    }
    return AccessDenied(**texts, count=max(1, asked.count))


@receives(SignedIn, OWNED)
def _signed_in(asked: SignedIn, _request: Request) -> Fact | Refusal:
    return AccessSignedIn(user=asked.user, groups=tuple(filter(is_group, asked.groups)))


@receives(Read)
def _read(asked: Read, request: Request) -> Fact | Refusal:
    return AccessRead(
        job=line(asked.job, TEXT_LENGTH_MAX),
        project=request.project,
        user=request.actor,
        what=line(asked.what, TEXT_LENGTH_MAX),
    )


PEOPLE_RECEIVERS: dict[str, Receive] = {
    "user.set": _set_user,
    "user.remove": _remove_user,
    "role.grant": _grant,
    "role.revoke": _revoke,
    "token.create": _create_token,
    "token.revoke": _revoke_token,
    "access.denied": _denied,
    "access.signed_in": _signed_in,
    "access.read": _read,
}
