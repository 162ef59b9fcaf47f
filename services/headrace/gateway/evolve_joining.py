"""How the projection's join tokens, and machines that wait for approval, follow the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.events import Entry, Event
from headrace.events.members import (
    JoinWaiting,
    MemberAdmitted,
    MemberRejected,
    TokenCreated,
    TokenRevoked,
)
from headrace.gateway.projection import TOKENS_MAX, Projection, Token


def created(projection: Projection, entry: Entry, event: TokenCreated) -> None:
    """Machines may join with it."""
    projection.tokens[event.token] = Token(created=event, created_at_us=entry.recorded_at_us)
    if len(projection.tokens) > TOKENS_MAX:
        del projection.tokens[next(iter(projection.tokens))]


def revoked(projection: Projection, _: Entry, event: TokenRevoked) -> None:
    """Nobody joins with it any more."""
    if event.token in projection.tokens:
        projection.tokens[event.token].revoked = True


def waits(projection: Projection, _: Entry, event: JoinWaiting) -> None:
    """A machine proved its token."""
    projection.waiting[event.node] = event
    _used(projection, event)


def admitted(projection: Projection, _: Entry, event: MemberAdmitted) -> None:
    """It is a node."""
    projection.waiting.pop(event.node, None)
    _used(projection, event)


def rejected(projection: Projection, _: Entry, event: MemberRejected) -> None:
    """It is turned away."""
    projection.waiting.pop(event.node, None)


def _used(projection: Projection, event: JoinWaiting | MemberAdmitted) -> None:
    token = projection.tokens.get(event.token)
    if token is not None:
        token.used_by[event.public_key] = event.node


FOLDS: dict[type[Event], Callable[[Projection, Entry, Any], None]] = {
    TokenCreated: created,
    TokenRevoked: revoked,
    JoinWaiting: waits,
    MemberAdmitted: admitted,
    MemberRejected: rejected,
}
