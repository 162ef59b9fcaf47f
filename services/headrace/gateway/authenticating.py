"""Who asks: a bearer token becomes a subject with its roles.

Rule: every token is looked up by its SHA-256, so that nothing secret is ever compared byte by byte,
and is good only as long as the log says so. Who cannot be told apart from a stranger is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from headrace.access.allowed import FLEET, Subject
from headrace.access.directory import Directory, is_over
from headrace.access.names import ADMIN, home_of, person_refusal
from headrace.client.people_model import Entrance
from headrace.events.people import Grant
from headrace.gateway.browsers import Browsers
from headrace.gateway.errors import Forbidden, Unauthorized

BEARER_LENGTH_MAX = 16_384  # a JWT with many groups; longer ones are not looked at
ON_BEHALF_OF = "Headrace-On-Behalf-Of"

WRONG_TOKEN = "the token is not valid here"  # noqa: S105
NO_TOKEN = "a token is needed: headrace login URL keeps one, or send Authorization: Bearer TOKEN"  # noqa: S105
OVER = "the token has expired; headrace token create, or headrace login, makes another"

OWNER = Subject(name=ADMIN, grants=(Grant(role="admin"),))


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A subject, and until when it is one (µs of the log's clock; 0: until something changes).
    `token` is the id of its API token; others have none. `groups` are those that an identity
    provider vouches for (None: it did not say who this is).
    """

    subject: Subject
    ends_at_us: int = 0
    token: str = ""
    groups: tuple[str, ...] | None = None

    @property
    def is_narrowed(self) -> bool:
        """Whether it may do less than its owner."""
        subject = self.subject
        return bool(subject.scopes or subject.projects or subject.via is not None)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What an identity provider said: who it is, in which groups, until when (s since 1970)."""

    user: str
    groups: tuple[str, ...] = ()
    ends_at_s: int = 0


class Provider(Protocol):
    """An identity provider."""

    async def prepare(self, bearer: str) -> None:
        """Have at hand what this token is verified with."""
        ...

    async def entrance(self) -> Entrance:
        """Where people sign in. Raises `NotReady` when the provider cannot be reached."""
        ...

    def verify(self, bearer: str, now_s: int) -> Identity | None:
        """The identity in a JWT at a time in s since 1970; None when it is no JWT.

        Raises `Unauthorized`.
        """
        ...


class Authenticator:
    """Knows the platform's own token, the API tokens on record, whom `provider` vouches for, and in
    which `browsers` they are signed in.
    """

    def __init__(
        self,
        token: str,
        directory: Directory,
        now_us: Callable[[], int],
        provider: Provider | None = None,
        browsers: Browsers | None = None,
    ) -> None:
        self._own = _digest(token)
        self._directory = directory
        self._now_us = now_us
        self.provider, self._browsers = provider, browsers

    async def prepare(self, headers: Mapping[str, str], method: str) -> None:
        """Have at hand what `login` needs. Raises `Forbidden` for a cookie that the page of another
        place makes a browser send; `method` is empty for a WebSocket.
        """
        bearer = self._bearer(headers)
        if bearer and self._browsers is not None and not headers.get("authorization"):
            self._browsers.check_page(headers, method)
        if self.provider is not None and "." in bearer:
            await self.provider.prepare(bearer)

    def login(self, headers: Mapping[str, str]) -> Login:
        """Who sent these headers. Raises `Unauthorized`, `Forbidden`."""
        bearer = self._bearer(headers)
        if not bearer:
            raise Unauthorized(WRONG_TOKEN if headers.get("authorization") else NO_TOKEN)
        login = self._known(bearer)
        person = headers.get(ON_BEHALF_OF, "")
        return self._on_behalf(login, person) if person else login

    def _bearer(self, headers: Mapping[str, str]) -> str:
        """The token that was sent, or that a browser's cookie stands for."""
        if self._browsers is None or headers.get("authorization"):
            return _bearer(headers)
        return self._browsers.bearer(headers)

    def _known(self, bearer: str) -> Login:
        digest = _digest(bearer)
        if digest == self._own:
            return Login(subject=OWNER)
        token = self._directory.tokens.get(digest)
        if token is None:
            return self._vouched(bearer)
        if is_over(token, self._now_us()):
            raise Unauthorized(OVER)
        subject = self._directory.subject(token.user)
        if subject is None:
            raise Unauthorized(WRONG_TOKEN)
        narrowed = msgspec.structs.replace(subject, scopes=token.scopes, projects=token.projects)
        return Login(subject=narrowed, ends_at_us=token.expires_at_us, token=token.token)

    def _vouched(self, bearer: str) -> Login:
        identity = None
        if self.provider is not None:
            identity = self.provider.verify(bearer, self._now_us() // 1_000_000)
        if identity is None:
            raise Unauthorized(WRONG_TOKEN)
        if person_refusal(identity.user) is not None:
            raise Unauthorized("nobody can be called as this login is")
        subject = self._directory.subject(identity.user, identity.groups)
        if subject is None:
            raise Unauthorized("this user is not let in here")
        return Login(
            subject=subject, ends_at_us=identity.ends_at_s * 1_000_000, groups=identity.groups
        )

    def _on_behalf(self, login: Login, person: str) -> Login:
        """The person, as far as the service account may do the same in what it belongs to. Who has
        no role there might as well not exist. Raises `Forbidden`.
        """
        service = login.subject
        account = self._directory.account(service.name)
        if account is None or not account.acts_for:
            raise Forbidden(f"{service.name} may not act for others (headrace user set --acts-for)")
        home = home_of(service.name)
        subject = None if person_refusal(person) else self._directory.within(person, home)
        if subject is None:
            raise Forbidden(f"nobody of that name has a role in {home or FLEET}")
        acting = msgspec.structs.replace(subject, via=service)
        return msgspec.structs.replace(login, subject=acting)


def _bearer(headers: Mapping[str, str]) -> str:
    """The token that was sent; empty when it is none that could be one."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    is_one = scheme.lower() == "bearer" and len(bearer) <= BEARER_LENGTH_MAX
    return bearer.strip() if is_one else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
