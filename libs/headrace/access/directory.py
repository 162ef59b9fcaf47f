"""Who there is, what they were given, and which tokens are good: folded from the log.

Rule: total and pure; whoever needs to know keeps one and folds `LISTENS_TO`. A role comes from a
grant or from the `members` of a project's or department's document; both count. A service is there
only while it is on record, and ends with the department or project that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from headrace.access.allowed import WHOLE_FLEET, Scope, Subject, covers
from headrace.access.names import home_of, is_service, member_of
from headrace.events import Event
from headrace.events.people import (
    AccessSignedIn,
    Account,
    ApiTokenCreated,
    ApiTokenRevoked,
    Grant,
    RoleGranted,
    RoleRevoked,
    UserRemoved,
    UserSet,
)
from headrace.events.queues import QueueConfigured, QueueDeleted

DEPTH_MAX = 32  # levels of the tree that are looked at
SIGNED_IN_MAX = 100_000  # people whose groups are remembered, the latest

_NOTHING = Account()


class Directory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """All of it. `tokens` are by digest, `digests` by the tokens' ids. `given` are the roles of each
    member, `listed` those that documents give, by queue. `signed_in` are the groups with which an
    identity provider last named somebody. `version` counts changes.
    """

    users: dict[str, Account] = {}
    removed: dict[str, None] = {}
    given: dict[str, tuple[Grant, ...]] = {}
    listed: dict[str, dict[str, tuple[Grant, ...]]] = {}
    tokens: dict[str, ApiTokenCreated] = {}
    digests: dict[str, str] = {}
    tokens_of: dict[str, dict[str, None]] = {}  # the digests of each user's
    signed_in: dict[str, tuple[str, ...]] = {}
    parents: dict[str, str] = {}  # of every department and project
    version: int = 0

    def account(self, user: str) -> Account | None:
        """The user of this name; None when there is none, or not any more."""
        return None if user in self.removed else self.users.get(user)

    def scope(self, queue: str) -> Scope:
        """Where a department or project is in the tree; of an unknown name only itself."""
        path = [queue]
        while (above := self.parents.get(path[-1], "")) and len(path) < DEPTH_MAX:
            path.append(above)
        return Scope(tuple(path))

    def subject(self, user: str, groups: tuple[str, ...] | None = None) -> Subject | None:
        """The user with every role they have, themselves and by their groups: those on record, and
        those of an identity provider (None: as it said last). None for a person who was removed, and
        for a service that is not on record.
        """
        if user in self.removed or (is_service(user) and user not in self.users):
            return None
        members = [member_of(user)]
        if not is_service(user):
            vouched = self.signed_in.get(user, ()) if groups is None else groups
            named = (*self.users.get(user, _NOTHING).groups, *vouched)
            members += [f"group:{name}" for name in dict.fromkeys(named)]
        grants = tuple(grant for member in members for grant in self.grants(member))
        return Subject(name=user, grants=grants)

    def within(self, person: str, home: str) -> Subject | None:
        """The person with the roles that they have in a department or project (empty: the fleet) and
        below it; one that was given further up counts as if it had been given there. None without
        any.
        """
        subject = self.subject(person)
        if subject is None:
            return None
        scope = self.scope(home) if home else WHOLE_FLEET
        grants = dict.fromkeys(
            Grant(role=grant.role, scope=home) if covers(grant, scope) else grant
            for grant in subject.grants
            if covers(grant, scope) or self.is_below(grant.scope, home)
        )
        return msgspec.structs.replace(subject, grants=tuple(grants)) if grants else None

    def is_below(self, scope: str, home: str) -> bool:
        """Whether a scope is this one (empty: the fleet) or inside of it."""
        return not home or home in self.scope(scope).path

    def claims(self, service: str) -> str:
        """What there is already under the name of a service that is not on record, as one would say
        it: roles and tokens, which would become those of who makes it. Empty when there is nothing.
        A role inside its own home is for those who make services there to give, and does not count.
        """
        if self.tokens_of.get(service):
            return "has API tokens"
        home = home_of(service)
        scopes = (grant.scope for grant in self.grants(service))
        wider = next((scope for scope in scopes if not self.is_below(scope, home)), None)
        return "" if wider is None else f"is given a role in {wider or 'the whole fleet'}"

    def live_tokens(self, user: str, now_us: int) -> int:
        """How many of the user's tokens have not expired."""
        own = (self.tokens[digest] for digest in self.tokens_of.get(user, ()))
        return sum(not is_over(token, now_us) for token in own)

    def grants(self, member: str) -> Iterator[Grant]:
        """Every role of the member."""
        yield from self.given.get(member, ())
        for grants in self.listed.get(member, {}).values():
            yield from grants


def evolve(directory: Directory, event: Event) -> None:
    """Fold one event."""
    fold = _FOLDS.get(type(event))
    if fold is not None:
        fold(directory, event)
        directory.version += 1


def is_over(token: ApiTokenCreated, now_us: int) -> bool:
    """Whether the token has expired."""
    return 0 < token.expires_at_us <= now_us


def _user(directory: Directory, event: UserSet) -> None:
    directory.users[event.user] = event.account
    directory.removed.pop(event.user, None)


def _user_removed(directory: Directory, event: UserRemoved) -> None:
    _forget_user(directory, event.user)
    if not is_service(event.user):
        directory.removed[event.user] = None
    directory.signed_in.pop(event.user, None)


def _forget_user(directory: Directory, user: str) -> None:
    """With the roles that were given to them, and their tokens."""
    directory.users.pop(user, None)
    directory.given.pop(member_of(user), None)
    for token in _tokens_of(directory, user):
        _forget_token(directory, token.token)


def _tokens_of(directory: Directory, user: str) -> list[ApiTokenCreated]:
    return [directory.tokens[digest] for digest in directory.tokens_of.get(user, ())]


def _signed_in(directory: Directory, event: AccessSignedIn) -> None:
    directory.signed_in.pop(event.user, None)
    directory.signed_in[event.user] = event.groups
    if len(directory.signed_in) > SIGNED_IN_MAX:
        del directory.signed_in[next(iter(directory.signed_in))]


def _granted(directory: Directory, event: RoleGranted) -> None:
    known = directory.given.get(event.member, ())
    if event.grant not in known:
        directory.given[event.member] = (*known, event.grant)


def _revoked(directory: Directory, event: RoleRevoked) -> None:
    left = tuple(g for g in directory.given.get(event.member, ()) if g != event.grant)
    if left:
        directory.given[event.member] = left
    else:
        directory.given.pop(event.member, None)


def _configured(directory: Directory, event: QueueConfigured) -> None:
    directory.parents[event.name] = event.queue.parent
    _unlist(directory, event.name)
    for listed in event.queue.members:
        queues = directory.listed.setdefault(listed.member, {})
        grant = Grant(role=listed.role, scope=event.name)
        queues[event.name] = (*queues.get(event.name, ()), grant)


def _deleted(directory: Directory, event: QueueDeleted) -> None:
    """Every role in it ends with it, and every service of it: who makes it anew says again who has
    one, and which there are.
    """
    directory.parents.pop(event.name, None)
    _unlist(directory, event.name)
    for member, grants in list(directory.given.items()):
        left = tuple(grant for grant in grants if grant.scope != event.name)
        if left:
            directory.given[member] = left
        else:
            del directory.given[member]
    services = [
        user for user in directory.users if is_service(user) and home_of(user) == event.name
    ]
    for service in services:
        _forget_user(directory, service)


def _unlist(directory: Directory, queue: str) -> None:
    """Its document gives nobody a role any more."""
    for member in [name for name, queues in directory.listed.items() if queue in queues]:
        del directory.listed[member][queue]
        if not directory.listed[member]:
            del directory.listed[member]


def _token(directory: Directory, event: ApiTokenCreated) -> None:
    if event.token in directory.digests or event.digest in directory.tokens:
        return
    for token in _tokens_of(directory, event.user):  # those that expired go with the next
        if is_over(token, event.created_at_us):
            _forget_token(directory, token.token)
    directory.tokens[event.digest] = event
    directory.digests[event.token] = event.digest
    directory.tokens_of.setdefault(event.user, {})[event.digest] = None


def _token_revoked(directory: Directory, event: ApiTokenRevoked) -> None:
    _forget_token(directory, event.token)


def _forget_token(directory: Directory, token: str) -> None:
    gone = directory.tokens.pop(directory.digests.pop(token, ""), None)
    if gone is not None:
        del directory.tokens_of[gone.user][gone.digest]
        if not directory.tokens_of[gone.user]:
            del directory.tokens_of[gone.user]


_FOLDS: dict[type[Event], Callable[[Directory, Any], None]] = {
    UserSet: _user,
    UserRemoved: _user_removed,
    AccessSignedIn: _signed_in,
    RoleGranted: _granted,
    RoleRevoked: _revoked,
    QueueConfigured: _configured,
    QueueDeleted: _deleted,
    ApiTokenCreated: _token,
    ApiTokenRevoked: _token_revoked,
}

LISTENS_TO = tuple(_FOLDS)
