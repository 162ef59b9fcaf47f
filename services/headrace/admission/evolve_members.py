"""How join tokens, members, and the keys of those that left follow the log.

Rule: total. A key is revoked while its node is deleted and a login of it may still be good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.admission.derived import keys_changed
from headrace.admission.hearing import member_of, token_of
from headrace.admission.state import State
from headrace.events import Entry
from headrace.events.members import (
    JoinWaiting,
    MemberAdmitted,
    MemberRejected,
    TokenCreated,
    TokenRevoked,
)

_US = 1_000_000


def left(state: State, node: str, now_us: int) -> None:
    """The node was deleted: its key is refused from now on."""
    member = state.members.pop(node, None)
    keys_changed(state)
    if member is None or not member.approved:
        return
    state.revoked[member.public_key] = now_us
    expired_us = now_us - state.setting("credential_lasts_s") * _US
    for key, at_us in list(state.revoked.items()):
        if at_us >= expired_us and len(state.revoked) <= state.setting("revoked_max"):
            break
        del state.revoked[key]


def _token(state: State, _entry: Entry, event: TokenCreated) -> None:
    if event.token in state.tokens:
        return
    state.tokens[event.token] = token_of(event)
    if len(state.tokens) > state.setting("tokens_max"):
        del state.tokens[next(iter(state.tokens))]


def _token_revoked(state: State, _entry: Entry, event: TokenRevoked) -> None:
    state.tokens.pop(event.token, None)


def _member(state: State, _entry: Entry, event: JoinWaiting | MemberAdmitted) -> None:
    state.members[event.node] = member_of(event)
    keys_changed(state)
    if isinstance(event, MemberAdmitted):
        state.revoked.pop(event.public_key, None)
    token = state.tokens.get(event.token)
    if token is not None:
        token.used_by[event.public_key] = event.node


def _rejected(state: State, _entry: Entry, event: MemberRejected) -> None:
    state.members.pop(event.node, None)
    keys_changed(state)


ON: dict[type[Any], Callable[[State, Entry, Any], None]] = {
    TokenCreated: _token,
    TokenRevoked: _token_revoked,
    JoinWaiting: _member,
    MemberAdmitted: _member,
    MemberRejected: _rejected,
}
