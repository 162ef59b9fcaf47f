"""Whom nothing could be done for, so that nobody is searched for who asks for the same or more.

Rule: holds only while nothing changes. Gangs are compared within a queue and a rank, and if they
have the same roles: wherever the one that asks for more could go, the other could.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from headrace.scheduling.gangs import PENDING, Gang, Shape

Sizes = tuple[int, ...]


class Refusals:
    """Those of one action."""

    def __init__(self) -> None:
        self._sizes: dict[Hashable, list[Sizes]] = {}  # by sort, what was refused of it

    def add(self, gang: Gang) -> None:
        """Nothing could be done for this one."""
        if (sort := _sort_of(gang)) is not None:
            self._sizes.setdefault(sort, []).append(_sizes_of(gang))

    def cover(self, gang: Gang) -> bool:
        """Whether one that asked for no more was refused."""
        if not self._sizes or (known := self._sizes.get(_sort_of(gang))) is None:
            return False
        sizes = _sizes_of(gang)
        return any(
            all(mine >= least for mine, least in zip(sizes, refused, strict=True))
            for refused in known
        )

    def clear(self) -> None:
        """Something has changed."""
        self._sizes.clear()


def _sort_of(gang: Gang) -> Hashable:
    """What has to be the same so that sizes can be compared; None where they never can."""
    if gang.root.groups or any(task.state != PENDING for task in gang.all_tasks()):
        return None
    options = _options_of(gang)
    if not options:
        return None
    rank = (gang.queue, gang.priority, gang.preemptible, gang.protected_minimum)
    roles = tuple((role.name, role.constraint) for role in gang.roles)
    tags = tuple(tasks[0].tags for tasks in gang.tasks.values() if tasks)
    kinds = tuple(tuple(map(_kind_of, option)) for option in options)
    root = (gang.root.minimum, gang.root.constraint)
    return (rank, gang.max_duration_us, root, roles, tags, kinds)


def _options_of(gang: Gang) -> tuple[tuple[Shape, ...], ...]:
    """What each of its roles may ask for; none where the tasks of a role differ."""
    asked = [{task.shape: None for task in tasks} for tasks in gang.tasks.values()]
    if any(len(shapes) != 1 for shapes in asked):
        return ()
    return gang.options or (tuple(shape for shapes in asked for shape in shapes),)


def _kind_of(shape: Shape) -> Hashable:
    kind = msgspec.structs.replace(
        shape, devices=0, device_milli=0, device_memory_bytes=0, cpu_milli=0, memory_bytes=0
    )
    return (kind, bool(shape.devices), shape.is_shared, bool(shape.device_memory_bytes))


def _sizes_of(gang: Gang) -> Sizes:
    sizes = [role.minimum for role in gang.roles]
    for option in _options_of(gang):
        for shape in option:
            sizes += (shape.devices, shape.device_milli, shape.device_memory_bytes)
            sizes += (shape.cpu_milli, shape.memory_bytes)
    return tuple(sizes)
