"""Users, roles and API tokens: what is given, and what cannot be.

Rule: nothing is given in a scope that does not exist, nor to a service that does not, nor to a person
who was removed; the same again is the same.
"""

from __future__ import annotations

from headrace.access.names import SERVICE, home_of, is_service, role_refusal
from headrace.admission.hearing import Hearing
from headrace.events import Decision, Refusal
from headrace.events.people import (
    ApiTokenCreated,
    ApiTokenRefused,
    ApiTokenRequested,
    ApiTokenRevoked,
    ApiTokenRevokeRequested,
    RoleGranted,
    RoleGrantRequested,
    RoleRefused,
    RoleRevoked,
    RoleRevokeRequested,
    UserRefused,
    UserRemoved,
    UserRemoveRequested,
    UserSet,
    UserSetRequested,
)

SECOND_US = 1_000_000
ROLES_MAX = 1_000  # of one member
MEMBERS_MAX = 100_000  # with roles of their own
MEMBERS_PER_SCOPE_MAX = 10_000  # of those, in one department or project
USERS_MAX = 100_000  # removed ones included
USERS_PER_HOME_MAX = 1_000  # service accounts of one department or project
TOKENS_MAX = 100_000
TOKENS_PER_USER_MAX = 100  # those that expired do not count once another is made


def set_user(hearing: Hearing, position: int, event: UserSetRequested) -> Decision:
    """The user is as given from now on. A service begins with nothing: what there is under its name
    was meant for another.
    """
    del position
    directory = hearing.state.directory
    before = directory.account(event.user)
    refusal = None
    if is_service(event.user):
        refusal = unknown_scope(hearing, home_of(event.user))
        claimed = "" if before is not None else directory.claims(event.user)
        if refusal is None and claimed:
            instead = "choose another name, or take that back first"
            refusal = Refusal(field="user", value=event.user, rule=claimed, instead=instead)
    if refusal is None and before is None and _users(hearing) >= USERS_MAX:
        refusal = Refusal(field="user", value=event.user, rule=f"there are {USERS_MAX} already")
    home = home_of(event.user) if is_service(event.user) else ""
    if refusal is None and before is None and _is_full(hearing, home):
        rule = f"{home} may have at most {USERS_PER_HOME_MAX} service accounts"
        instead = "remove one that nobody needs"
        refusal = Refusal(field="user", value=event.user, rule=rule, instead=instead)
    if refusal is not None:
        return UserRefused(user=event.user, refusal=refusal)
    change = "unchanged" if before == event.account else "updated" if before else "created"
    return UserSet(user=event.user, account=event.account, change=change)


def remove_user(hearing: Hearing, position: int, event: UserRemoveRequested) -> Decision:
    """The user is let in no more. A person who was never set may still come from an identity
    provider.
    """
    del position
    directory = hearing.state.directory
    refusal = None
    if is_service(event.user):
        if directory.account(event.user) is None:
            refusal = Refusal(field="user", value=event.user, rule="is no service")
    elif event.user not in directory.removed and _users(hearing) >= USERS_MAX:
        refusal = Refusal(field="user", value=event.user, rule=f"there are {USERS_MAX} already")
    if refusal is not None:
        return UserRefused(user=event.user, refusal=refusal)
    return UserRemoved(user=event.user)


def grant_role(hearing: Hearing, position: int, event: RoleGrantRequested) -> Decision:
    """The member has the role from now on."""
    del position
    directory, grant = hearing.state.directory, event.grant
    had = directory.given.get(event.member, ())
    refusal = (
        unknown_scope(hearing, grant.scope) or _misfit(hearing, event) or _gone(hearing, event)
    )
    if refusal is None and grant not in had and len(had) >= ROLES_MAX:
        rule = f"has {ROLES_MAX} roles already"
        refusal = Refusal(field="member", value=event.member, rule=rule, instead="use a group")
    if refusal is None and not had and len(directory.given) >= MEMBERS_MAX:
        rule = f"{MEMBERS_MAX} members have roles already"
        refusal = Refusal(field="member", value=event.member, rule=rule, instead="use a group")
    if refusal is None and grant not in had and _is_crowded(hearing, grant.scope):
        rule = f"{MEMBERS_PER_SCOPE_MAX} members have roles in {grant.scope}, which is the most"
        refusal = Refusal(field="member", value=event.member, rule=rule, instead="use a group")
    if refusal is not None:
        return RoleRefused(member=event.member, grant=grant, refusal=refusal)
    change = "unchanged" if grant in had else "created"
    return RoleGranted(member=event.member, grant=grant, change=change)


def _is_full(hearing: Hearing, home: str) -> bool:
    """Whether as many service accounts as may have this home; counted only when that can be."""
    users = hearing.state.directory.users
    if not home or len(users) < USERS_PER_HOME_MAX:
        return False
    return hearing.services_of[home] >= USERS_PER_HOME_MAX


def _is_crowded(hearing: Hearing, scope: str) -> bool:
    """Whether as many members as may have a role in this scope; counted only when that can be."""
    given = hearing.state.directory.given
    if not scope or len(given) < MEMBERS_PER_SCOPE_MAX:
        return False
    return hearing.members_in[scope] >= MEMBERS_PER_SCOPE_MAX


def revoke_role(hearing: Hearing, position: int, event: RoleRevokeRequested) -> Decision:
    """The member has the role no more."""
    del position
    directory, grant = hearing.state.directory, event.grant
    if grant in directory.given.get(event.member, ()):
        return RoleRevoked(member=event.member, grant=grant)
    rule, instead = f"was not given to {event.member} there", ""
    if any(grant in grants for grants in directory.listed.get(event.member, {}).values()):
        rule = f"of {event.member} is in the document of {grant.scope}"
        instead = "take it out of its members and apply it"
    refusal = Refusal(field="role", value=grant.role, rule=rule, instead=instead)
    return RoleRefused(member=event.member, grant=grant, refusal=refusal)


def create_token(hearing: Hearing, position: int, event: ApiTokenRequested) -> Decision:
    """Who shows it is let in from now on. The same token again is the same token."""
    del position
    directory = hearing.state.directory
    refusal = _nobody(hearing, event.user)
    known = directory.digests.get(event.token)
    if known is not None and known != event.digest:
        refusal = Refusal(field="token", value=event.token, rule="exists already")
    limit = TOKENS_PER_USER_MAX
    if known is None and directory.live_tokens(event.user, hearing.now_us) >= limit:
        rule = f"{event.user} has {limit} tokens already"
        refusal = Refusal(field="token", rule=rule, instead="revoke one (headrace token list)")
    if known is None and len(directory.tokens) >= TOKENS_MAX:
        refusal = Refusal(field="token", rule=f"there are {TOKENS_MAX} tokens already")
    if refusal is not None:
        return ApiTokenRefused(token=event.token, refusal=refusal)
    return ApiTokenCreated(
        token=event.token,
        digest=event.digest,
        user=event.user,
        name=event.name,
        scopes=event.scopes,
        projects=event.projects,
        created_at_us=hearing.now_us,
        expires_at_us=hearing.now_us + event.lasts_s * SECOND_US if event.lasts_s else 0,
    )


def revoke_token(hearing: Hearing, position: int, event: ApiTokenRevokeRequested) -> Decision:
    """Nobody is let in with it any more."""
    del position
    if event.token not in hearing.state.directory.digests:
        refusal = Refusal(field="token", value=event.token, rule="is not known, or was revoked")
        return ApiTokenRefused(token=event.token, refusal=refusal)
    return ApiTokenRevoked(token=event.token)


def unknown_scope(hearing: Hearing, scope: str) -> Refusal | None:
    """A refusal unless the scope is the fleet (empty), a department or a project."""
    queues = hearing.state.queues
    if not scope or scope in queues:
        return None
    rule = "is no department or project"
    return Refusal(field="scope", value=scope, rule=rule, unknown="department or project")


def _misfit(hearing: Hearing, event: RoleGrantRequested) -> Refusal | None:
    queue = hearing.state.queues.get(event.grant.scope)
    return role_refusal(event.grant.role, queue.kind if queue is not None else "")


def _gone(hearing: Hearing, event: RoleGrantRequested) -> Refusal | None:
    kind, _, name = event.member.partition(":")
    if kind == "group":
        return None
    return _nobody(hearing, name if kind == "user" else event.member)


def _nobody(hearing: Hearing, user: str) -> Refusal | None:
    """A refusal for a service that is not on record, and for a person who was removed."""
    directory = hearing.state.directory
    if is_service(user) and directory.account(user) is None:
        home, name = home_of(user), user.removeprefix(SERVICE).rpartition("/")[2]
        instead = f"headrace user set {name} --service{f' -p {home}' if home else ''}"
        return Refusal(field="user", value=user, rule="is no service", instead=instead)
    if user in directory.removed:
        instead = f"headrace user set {user}"
        return Refusal(field="user", value=user, rule="was removed", instead=instead)
    return None


def _users(hearing: Hearing) -> int:
    return len(hearing.state.directory.users) + len(hearing.state.directory.removed)
