"""What of a running gang is taken first: what it can do without, then all of it.

Rule: one task above a role's minimum, else one whole member above a group's minimum, else the
gang. Within a role the last task to be placed is the first to go.
"""

from __future__ import annotations

from headrace.scheduling.gangs import PLACED, Gang, Group, Role, Task, members_of, roles_of

Held = dict[str, list[Task]]  # by role, in the order in which they are placed


def held_of(gang: Gang) -> Held:
    """The gang's tasks that hold something."""
    return {
        role: [task for task in tasks if task.state in PLACED] for role, tasks in gang.tasks.items()
    }


def next_chunk(gang: Gang, held: Held, *, surplus_only: bool = False) -> list[Task]:
    """What to take next of what is still held; nothing of its minimum with `surplus_only`."""
    surplus = _surplus(gang.root, held)
    return surplus if surplus or surplus_only else _all_of(gang.root, held)


def without(held: Held, chunk: list[Task]) -> Held:
    """What is held after a chunk is taken."""
    return {role: [t for t in tasks if t not in chunk] for role, tasks in held.items()}


def standing_of(gang: Gang, held: Held) -> int:
    """Like `Gang.standing`, of what is still held: below, at or above its minimum."""
    above = False
    for role in gang.roles:
        have = len(held.get(role.name, ()))
        if have < role.minimum:
            return 0
        above = above or have > role.minimum
    return 2 if above else 1


def _surplus(group: Group, held: Held) -> list[Task]:
    served = sum(_is_served(member, held) for member in members_of(group))
    if not served:
        return []
    members = sorted(members_of(group), key=lambda m: (*_ratio(m, held), m.name), reverse=True)
    for member in members:
        if isinstance(member, Group):
            found = _surplus(member, held)
        else:
            mine = held.get(member.name, [])
            found = mine[-1:] if len(mine) > member.minimum else []
        if found:
            return found
    if group.needed < served:
        for member in members:
            if found := _all_of(member, held):
                return found
    return []


def _all_of(member: Group | Role, held: Held) -> list[Task]:
    roles = [member] if isinstance(member, Role) else roles_of(member)
    return [task for role in roles for task in reversed(held.get(role.name, []))]


def _is_served(member: Group | Role, held: Held) -> bool:
    if isinstance(member, Role):
        return len(held.get(member.name, ())) >= member.minimum
    return _served(member, held) >= member.needed


def _served(group: Group, held: Held) -> int:
    return sum(_is_served(member, held) for member in members_of(group))


def _ratio(member: Group | Role, held: Held) -> tuple[int, int]:
    if isinstance(member, Role):
        have, needed = len(held.get(member.name, ())), member.minimum
    else:
        have, needed = _served(member, held), member.needed
    if have < needed:
        return (0, 0)
    return (2, have) if not needed else (1, have * 1_000_000 // needed)
