"""The one judgement of access.

Rule: denied unless a grant of the subject covers the scope and the table lets its role do this. A
token narrows what its owner may do and never widens it; who acts for somebody may do what both may,
and nothing to what lets people and programs in.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from headrace.access.table import LETS_IN, MAY, NOUNS, ROLES, VERBS
from headrace.events import Refusal
from headrace.events.people import Grant

FLEET = "the whole fleet"
FOLLOWS = (("job", "read"), ("event", "read"), ("logs", "read"))
"""What who submits a job needs to follow it to its end: a token that may do the one may do the others
to its owner's own jobs."""


class Scope(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where something is: a project or department and those it belongs to, the nearest first.
    Without any it is the whole fleet's.
    """

    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.path[0] if self.path else FLEET


WHOLE_FLEET = Scope()


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asks. `scopes` (`noun.verb`, with `*` for either) and `projects` narrow what its token is
    good for; empty, they do not. `via` is the service account that asks for this subject.
    """

    name: str
    grants: tuple[Grant, ...] = ()
    scopes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    via: Subject | None = None

    @property
    def actor(self) -> str:
        """As it stands on record."""
        return f"{self.name} via {self.via.name}" if self.via is not None else self.name


class Allowed(msgspec.Struct, frozen=True):
    """Yes, because of this grant."""

    by: Grant


Judgement: TypeAlias = Allowed | Refusal


def allowed(subject: Subject, verb: str, noun: str, scope: Scope, owner: str = "") -> Judgement:
    """Whether the subject may do this there. `owner` is who made the thing, if it is somebody's."""
    if subject.via is not None:
        if _matches(LETS_IN, verb, noun):
            return _never_through(subject.via, verb, noun)
        through = subject.via.name if owner == subject.name else owner
        service = allowed(subject.via, verb, noun, scope, through)
        if isinstance(service, Refusal):
            return service
    reaches = MAY.get((noun, verb), {})
    is_own = owner == subject.name
    follows = is_own and (noun, verb) in FOLLOWS and _token_covers(subject, "submit", "job", scope)
    if not follows and not _token_covers(subject, verb, noun, scope):
        return _token_refusal(subject, verb, noun)
    for grant in subject.grants:
        reach = reaches.get(grant.role, "")
        if reach in ("own", "mine") and not is_own:
            continue
        if reach in ("any", "mine") or (reach and covers(grant, scope)):
            return Allowed(grant)
    return _refusal(subject, verb, noun, scope)


def refused_everywhere(subject: Subject, verb: str, noun: str) -> Refusal | None:
    """Why there is nothing of this kind that the subject may do this to; None: there may be."""
    if subject.via is not None:
        if _matches(LETS_IN, verb, noun):
            return _never_through(subject.via, verb, noun)
        service = refused_everywhere(subject.via, verb, noun)
        if service is not None:
            return service
    reaches = MAY.get((noun, verb), {})
    follows = (noun, verb) in FOLLOWS and _matches(subject.scopes, "submit", "job")
    if not follows and not _matches(subject.scopes, verb, noun):
        return _token_refusal(subject, verb, noun)
    if any(grant.role in reaches for grant in subject.grants):
        return None
    return _refusal(subject, verb, noun)


def allowed_to_give(subject: Subject, grant: Grant, scope: Scope) -> Judgement:
    """Whether the subject may give (or take) this role in this scope: nobody gives a role that is
    above the one they have there.
    """
    judged = allowed(subject, "grant", "role", scope)
    if isinstance(judged, Refusal):
        return judged
    if grant.role not in ROLES:
        return Refusal(field="role", value=grant.role, rule="is no role", instead=", ".join(ROLES))
    highest = min(
        (
            ROLES.index(had.role)
            for had in subject.grants
            if had.role in ROLES and covers(had, scope)
        ),
        default=len(ROLES),
    )
    if ROLES.index(grant.role) >= highest:
        return judged
    rule = f"{subject.name} is {ROLES[highest]} there and gives no role above that"
    return Refusal(field="role", value=grant.role, rule=rule)


def covers(grant: Grant, scope: Scope) -> bool:
    """Whether the role was given in this scope or in one around it."""
    return not grant.scope or grant.scope in scope.path


def is_scope(pattern: str) -> bool:
    """Whether a token's scope can match anything: `job.read`, `job.*`, `*.read` or `*`."""
    noun, _, verb = pattern.partition(".")
    return pattern == "*" or (noun in (*NOUNS, "*") and verb in (*VERBS, "*"))


def _token_covers(subject: Subject, verb: str, noun: str, scope: Scope) -> bool:
    if not _matches(subject.scopes, verb, noun):
        return False
    reach = MAY.get((noun, verb), {}).values()
    if not subject.projects or "any" in reach:
        return True
    return any(name in scope.path for name in subject.projects)


def _matches(scopes: tuple[str, ...], verb: str, noun: str) -> bool:
    wanted = ("*", f"{noun}.{verb}", f"{noun}.*", f"*.{verb}", "*.*")
    return not scopes or any(pattern in wanted for pattern in scopes)


def _token_refusal(subject: Subject, verb: str, noun: str) -> Refusal:
    narrowed = ", ".join((*subject.scopes, *subject.projects))
    rule = f"the token of {subject.name} is good for {narrowed} only"
    return Refusal(field="access", value=f"{noun}.{verb}", rule=rule)


def _never_through(service: Subject, verb: str, noun: str) -> Refusal:
    rule = f"{service.name} may not do this in the name of another"
    instead = "ask without Headrace-On-Behalf-Of"
    return Refusal(field="access", value=f"{noun}.{verb}", rule=rule, instead=instead)


def _refusal(subject: Subject, verb: str, noun: str, scope: Scope | None = None) -> Refusal:
    """Why not in this scope; without one, why nowhere."""
    where = FLEET if scope is None else str(scope)
    covering = [grant for grant in subject.grants if scope is None or covers(grant, scope)]
    has = sorted({f"{grant.role} of {grant.scope or FLEET}" for grant in covering})
    said = " and ".join(has) if has else f"without a role in {where}"
    could = [role for role in ROLES if MAY.get((noun, verb), {}).get(role) in ("yes", "any")]
    of = "" if scope is None and could != ["admin"] else f" of {where}"
    instead = f"{' or '.join(could)}{of} may" if could else ""
    rule = f"{subject.name} is {said}"
    return Refusal(field="access", value=f"{noun}.{verb}", rule=rule, instead=instead)
