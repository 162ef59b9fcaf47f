"""What a job is offered: the shapes that its workers may ask for, and how close they must be.

Rule: a function of what the job asks for, the pools, the volumes and what was measured of its family,
so that it is the same for all jobs of a family that ask for the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from headrace.events.asked import Accelerator
from headrace.events.asked import Gang as Asked
from headrace.events.pools import Pool
from headrace.placement.option_rules import NOWHERE, Option, options_by_role
from headrace.placement.reach_rules import Labels, near_by, reached_by
from headrace.placement.state import State
from headrace.scheduling.cluster import DEVICE_MILLI
from headrace.scheduling.gangs import Constraint, Group, Role, Shape
from headrace.scheduling.kinds import SIZE_TOLERANCE_PERCENT


class Offer(NamedTuple):
    """What the workers of each role may ask for, the best first, and how many of each must be how
    close together. Of the options those `anywhere` are not bound to nodes near its volumes.
    """

    options: tuple[tuple[Shape, ...], ...]
    anywhere: tuple[tuple[Shape, ...], ...]
    root: Group


def offer_of(state: State, family: str, asked: Asked) -> Offer:
    """The same for all jobs of a family that ask for the same."""
    options = options_for(state, family, asked)
    anywhere = tuple(shapes for shapes, chosen in options.items() if not chosen[0].near)
    parts = asked.by_role().items()
    roles = tuple(Role(name=name, minimum=part.nodes) for name, part in parts)
    root = Group(roles=roles, constraint=_constraint(asked, state.pools))
    return Offer(options=tuple(options), anywhere=anywhere or tuple(options), root=root)


def options_for(
    state: State, family: str, asked: Asked
) -> dict[tuple[Shape, ...], tuple[Option, ...]]:
    """What a worker of each role of a job may ask for, the best first, and why that is so. Of each
    kind and pool the nodes near its volumes come before the others.
    """
    found: dict[tuple[Shape, ...], tuple[Option, ...]] = {}
    measured = state.measured.get(family, ())
    parts = list(asked.by_role().values())
    reached = reached_by(asked, state.volumes)
    names, near = near_by(asked, state.volumes)
    for options in options_by_role(asked, state.pools, measured):
        if near:
            nearer = tuple(msgspec.structs.replace(option, near=names) for option in options)
            found.setdefault(_shapes(parts, options, (*reached, *near)), nearer)
        found.setdefault(_shapes(parts, options, reached), options)
    return found


def _shapes(parts: Sequence[Asked], options: Sequence[Option], labels: Labels) -> tuple[Shape, ...]:
    both = zip(parts, options, strict=True)
    return tuple(_shape(part, option.kind, option.pool, labels) for part, option in both)


def _shape(asked: Asked, kind: Accelerator, pool: Pool | None, labels: Labels) -> Shape:
    whole, odd = divmod(kind.milli, DEVICE_MILLI)
    share = bool(asked.gpu_memory_bytes) or bool(odd and not whole)
    here = ((pool.label, pool.value),) if pool is not None else ()
    nowhere = bool(whole and odd) or pool is NOWHERE  # one and a half GPUs, an unknown pool
    return Shape(
        devices=1 if share else whole,
        device_milli=kind.milli if odd and not whole else DEVICE_MILLI,
        device_memory_bytes=asked.gpu_memory_bytes,
        model=kind.model,
        profile=kind.profile,
        memory_min_bytes=-(-kind.memory_bytes_min * 100 // (100 + SIZE_TOLERANCE_PERCENT)),
        memory_max_bytes=kind.memory_bytes_max * 100 // (100 - SIZE_TOLERANCE_PERCENT),
        cpu_milli=asked.cpu_milli,
        memory_bytes=asked.memory_bytes,
        only=() if nowhere else None,
        labels=tuple(dict.fromkeys((*here, *labels))),
        apart=max(asked.nodes, asked.nodes_max) > 1,
        contained=asked.contained,
    )


def _constraint(asked: Asked, pools: Mapping[str, Pool]) -> Constraint | None:
    """The levels asked for, of the first of its pools that has them."""
    levels = [level for level in (asked.topology_required, asked.topology_preferred) if level]
    if not levels:
        return None
    names: Sequence[str] = asked.pools or tuple(pools)
    known = (n for n in names if n in pools and all(lvl in pools[n].topology for lvl in levels))
    topology = next(known, "")
    if not topology and not asked.topology_required:
        return None  # nobody knows what is near; that keeps nobody waiting
    return Constraint(
        topology=topology,
        required=asked.topology_required,
        preferred=asked.topology_preferred,
    )
