"""Who makes a request, and what they may do: every route works through one of these.

Rule: nothing is asked of a service before it was checked, and what was checked is checked again when
roles or tokens change: a stream that is open ends when its check would fail now.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Any, TypeVar

import msgspec
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import Scope as AsgiScope

from headrace.access.allowed import (
    WHOLE_FLEET,
    Scope,
    Subject,
    allowed,
    allowed_to_give,
    refused_everywhere,
)
from headrace.client.model import Answer
from headrace.documents.wording import meant
from headrace.events import Refusal
from headrace.events.people import Grant
from headrace.gateway.authenticating import Login
from headrace.gateway.errors import BadRequest, Denied, GatewayError, NotFound
from headrace.gateway.gateway import Gate, Gateway
from headrace.gateway.projection import Job
from headrace.gateway.seeing import Sight

LOOKS_S = 1.0  # how often an open stream looks whether its token has expired

CALLER = "headrace.caller"  # where the guard leaves it, in the scope of a request

T = TypeVar("T")


class Permission(msgspec.Struct, frozen=True):
    """What a route does, in the words of the table of access."""

    verb: str
    noun: str


def may(verb: str, noun: str) -> dict[str, Any]:
    """A route's options: what one must be allowed to do to call it."""
    return {"may": Permission(verb, noun)}


OPEN: dict[str, Any] = {"open": True}  # to everybody: it looks itself at what is shown
SIGNED_IN: dict[str, Any] = {"signed_in": True}  # to everybody who has a good token


class Caller:
    """One request's asker. `headers` say who it is; `permission` is the route's."""

    def __init__(
        self, gateway: Gateway, headers: Mapping[str, str], permission: Permission | None
    ) -> None:
        self.gateway = gateway
        self._headers = headers
        self._permission = permission
        self._checks: dict[tuple[Permission, Scope, str], None] = {}
        self._sees: dict[str, bool] = {}
        self._hears: dict[str, bool] = {}
        self._follows = ""
        self._version = gateway.directory.version
        self._is_over = False
        self.login: Login = gateway.authenticator.login(headers)

    @property
    def subject(self) -> Subject:
        """Who asks."""
        return self.login.subject

    @property
    def name(self) -> str:
        """Whose share of what is bounded this asker takes."""
        return self.subject.actor

    def check(
        self, where: str | Scope = "", owner: str = "", *, verb: str = "", noun: str = ""
    ) -> None:
        """Raise `Denied` unless they may do what the route does (or `verb` to `noun`) there: in a
        project or department, or without one in the whole fleet.
        """
        permission = Permission(verb, noun) if verb else self._permission
        assert permission is not None, "a route that is open checks nothing"
        scope = where if isinstance(where, Scope) else self.gateway.scope(where)
        self._raise_unless(permission, scope, owner)
        self._checks[permission, scope, owner] = None

    def check_giving(self, grant: Grant, scope: Scope) -> None:
        """Raise `Denied` unless they may give or take this role in this scope."""
        judged = allowed_to_give(self.subject, grant, scope)
        if isinstance(judged, Refusal):
            self._deny(judged, scope)
        self._checks[Permission("grant", "role"), scope, ""] = None

    def may(self, verb: str, noun: str, where: str | Scope = "", owner: str = "") -> bool:
        """Whether they may; nothing is refused by asking."""
        scope = where if isinstance(where, Scope) else self.gateway.scope(where)
        return not isinstance(allowed(self.subject, verb, noun, scope, owner), Refusal)

    def may_here(self, where: str, owner: str = "") -> bool:
        """Whether they may do there what the route does; nothing is refused by asking."""
        assert self._permission is not None, "a route that is open asks nothing"
        return self.may(self._permission.verb, self._permission.noun, where, owner)

    def sees(self, project: str) -> bool:
        """Whether they may see the jobs of a project (empty: what is the whole fleet's)."""
        if project not in self._sees:
            self._sees[project] = self.may("read", "job", project)
        return self._sees[project]

    def check_seen(self, project: str) -> None:
        """Raise `BadRequest` for a project that is none, or none that they see: one that is misspelt
        has no rows either.
        """
        projection = self.gateway.projection
        was = project in projection.deleted and self.sees(project)
        if project and not was:
            known = [name for name in projection.queues if self.sees(name)]
            if project not in known:
                instead = meant(project, "projects", known, "you see none")
                raise BadRequest("project", project, "is no project that you see", instead)

    def hears(self, project: str) -> bool:
        """Whether they may read the events of a project (empty: those of no project)."""
        if project and project == self._follows:
            return True
        if project not in self._hears:
            self._hears[project] = self.may("read", "event", project)
        return self._hears[project]

    async def followed(self, name: str, index: int | None = None) -> Job:
        """The same as `job`; from here on they hear of its project, where nothing but events of this
        job is read.
        """
        found = await self.job(name, index)
        self._follows = found.project
        return found

    @property
    def view(self) -> Hashable:
        """The same for all who see the same."""
        subject = msgspec.structs.replace(self.subject, name="")
        return subject, self.gateway.directory.version

    @property
    def sight(self) -> Sight:
        """What they see."""
        sees = None if self.sees("") else self.sees
        return Sight(self.gateway.projection, sees)

    async def job(self, name: str, index: int | None = None) -> Job:
        """The job of this id or beginning, if they may do to it what the route does. What they may
        not see does not exist. Raises `NotFound`, `Ambiguous`, `Denied`.
        """
        found = await self.gateway.job(name, index, None if self.sees("") else self.sees)
        if not self.sees(found.project) and not self.may_here(found.project, found.user):
            raise NotFound(
                f"no job {name if index is None else found.job} is known (headrace ps --all)"
            )
        self.check(found.project, found.user)
        return found

    async def ask(
        self,
        verb: str,
        project: str,
        body: bytes | dict[str, Any],
        *,
        key: str = "",
        traceparent: str = "",
    ) -> Answer:
        """Ask the owner of the noun, in this asker's name. Only what was checked is asked for.

        Raises `TooMany`, `BadRequest`, `NoAnswer`.
        """
        assert self._checks, "nothing is asked for that was not checked"
        with self.gateway.rooms[verb.partition(".")[0]].taken(project, self.name):
            return await self.gateway.asker.ask(
                verb,
                project,
                body,
                key=key,
                traceparent=traceparent,
                actor=self.subject.name,
                via=self.subject.via.name if self.subject.via is not None else "",
            )

    def holds(self) -> bool:
        """Whether everything that was checked would be allowed now. Once over it stays so."""
        self._is_over = self._is_over or not self._would_be_allowed()
        return not self._is_over

    def _would_be_allowed(self) -> bool:
        now_us = self.gateway.follower.now_us()
        if self.login.ends_at_us and now_us >= self.login.ends_at_us:
            return False
        if self._version == self.gateway.directory.version:
            return True
        self._version = self.gateway.directory.version
        self._sees.clear()
        self._hears.clear()
        try:
            self.login = self.gateway.authenticator.login(self._headers)
        except GatewayError:
            return False
        if self._refused_everywhere() is not None:  # what is filtered checks no place of its own
            return False
        return all(
            not isinstance(allowed(self.subject, p.verb, p.noun, scope, owner), Refusal)
            for p, scope, owner in self._checks
        )

    async def until_denied(self) -> None:
        """Return once something that was checked would not be allowed any more."""
        while self.holds():  # noqa: ASYNC110 -- nobody tells when a token expires
            await asyncio.sleep(LOOKS_S)

    def _raise_unless(self, permission: Permission, scope: Scope, owner: str) -> None:
        judged = allowed(self.subject, permission.verb, permission.noun, scope, owner)
        if isinstance(judged, Refusal):
            self._deny(judged, scope)

    def _deny(self, refusal: Refusal, scope: Scope) -> None:
        where = scope.path[0] if scope.path else ""
        self.gateway.denials.note(self.subject.actor, refusal.value, where)
        raise Denied(refusal)

    def check_somewhere(self) -> None:
        """Raise `Denied` unless there is anything at all to which they may do what the route does."""
        refusal = self._refused_everywhere()
        if refusal is not None:
            self._deny(refusal, WHOLE_FLEET)

    def _refused_everywhere(self) -> Refusal | None:
        if self._permission is None:
            return None
        return refused_everywhere(self.subject, self._permission.verb, self._permission.noun)


def caller_of(scope: AsgiScope, gateway: Gate) -> Caller:
    """The asker that the guard let in. Both at once would cost a group of tasks: the gateway first."""
    del gateway
    caller: Caller = scope[CALLER]  # type: ignore[literal-required]
    return caller


By = NamedDependency[SkipValidation[Caller]]


async def while_allowed(by: Caller, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """The items, until what the caller checked would not be allowed any more."""
    denied = asyncio.create_task(by.until_denied())
    try:
        while True:
            coming = asyncio.ensure_future(anext(items))
            await asyncio.wait((coming, denied), return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                return
            try:
                yield coming.result()
            except StopAsyncIteration:
                return
    finally:
        denied.cancel()
