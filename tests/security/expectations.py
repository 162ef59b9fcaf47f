"""What the table of access says that somebody may, read from its text and nothing else.

Rule: nothing of what judges in production is used here but the table itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.security.operations import FLEET, PATHS, PLACES, SOMEWHERE

from headrace.access.table import TABLE

_HEAD, *_LINES = (line.split() for line in TABLE.strip().splitlines())
ROLES = tuple(_HEAD[2:])
CELLS = {
    (f"{noun}.{verb}", role): cell
    for noun, verb, *cells in _LINES
    for role, cell in zip(ROLES, cells, strict=True)
}
NEVER_FOR_ANOTHER = ("user.", "service.", "role.", "token.", "publisher.", "node.join")


@dataclass(frozen=True)
class Actor:
    """Who asks: with these roles (role, scope), perhaps through a service of a `home` with roles of
    its own, perhaps with a token that is good for these `scopes` and `projects` only.
    """

    name: str
    roles: tuple[tuple[str, str], ...] = ()
    service: tuple[tuple[str, str], ...] | None = None
    home: str = ""
    scopes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    is_known: bool = True

    @property
    def is_narrowed(self) -> bool:
        return bool(self.scopes or self.projects or self.service is not None)


def may(actor: Actor, right: str, where: str) -> bool:
    """Whether they may do this there, to what another made."""
    if not actor.is_known:
        return False
    if actor.service is None:
        return _token_is_good(actor, right, where) and _has(actor.roles, right, where)
    if right.startswith(NEVER_FOR_ANOTHER):
        return False
    theirs = within(actor.roles, actor.home)
    both = _has(theirs, right, where) and _has(actor.service, right, where)
    return both and _token_is_good(actor, right, where)


def is_let_in(actor: Actor) -> bool:
    """Whether there is such a subject at all."""
    acts = actor.service is None or bool(within(actor.roles, actor.home))
    return actor.is_known and acts


def within(roles: tuple[tuple[str, str], ...], home: str) -> tuple[tuple[str, str], ...]:
    """The part of somebody's roles that a service of this home can make use of."""
    if not home:
        return roles
    inside = [(role, scope) for role, scope in roles if home in PATHS[scope]]
    above = [(role, home) for role, scope in roles if not scope or scope in PATHS[home]]
    return tuple(dict.fromkeys((*inside, *above)))


def _has(roles: tuple[tuple[str, str], ...], right: str, where: str) -> bool:
    for role, scope in roles:
        cell = CELLS.get((right, role), "-")
        is_there = not scope or (where in PATHS and scope in PATHS[where])
        if cell == "any" or (cell == "yes" and is_there):
            return True
        if where == SOMEWHERE and cell != "-":
            return True
    return False


def _token_is_good(actor: Actor, right: str, where: str) -> bool:
    noun, verb = right.split(".")
    words = {"*", right, f"{noun}.*", f"*.{verb}"}
    if actor.scopes and not words & set(actor.scopes):
        return False
    is_anywhere = "any" in {CELLS.get((right, role)) for role in ROLES}
    if not actor.projects or is_anywhere or where == SOMEWHERE:
        return True
    return where in PLACES and bool(set(PATHS[where]) & set(actor.projects))


assert FLEET not in PATHS
