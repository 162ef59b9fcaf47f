"""Why a gang waits: asked of the very world that decides, decided on by nobody.

Rule: pure; whatever is tried out is taken back. Everything is bounded: holders looked at, names
told.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

import msgspec

from headrace.scheduling.accounts import Barrier
from headrace.scheduling.amounts import CPU, GPU, MEMORY
from headrace.scheduling.eviction_budgets import EvictionBudgets, Spent
from headrace.scheduling.exclusions import searches
from headrace.scheduling.explanation import Explanation
from headrace.scheduling.gangs import PIPELINED, PLACED, Gang, Shape, Task, next_tasks
from headrace.scheduling.legality import Taker, may_lose, may_take
from headrace.scheduling.machines import Machine
from headrace.scheduling.part_barriers import barred_cells
from headrace.scheduling.placing import barrier_of, choices, place_gang, request_of, taker_of
from headrace.scheduling.protection import safe_from_preemption, safe_from_reclaim, taking
from headrace.scheduling.topology import could_gather
from headrace.scheduling.world import World

HOLDERS_MAX = 2_000  # running gangs judged for one explanation
UNITS = {GPU: "GPUs", CPU: "CPUs", MEMORY: "of memory"}

COULD_GO = "could go"


def why_waiting(world: World, gang: Gang) -> Explanation:
    """What has to change before this gang gets places."""
    if gang.queue not in world.accounts:
        text = f"project {gang.queue} does not exist; headrace apply creates it"
        return Explanation(rule="unknown-project", text=text, names={"project": gang.queue})
    tasks = next_tasks(gang, again=False)
    if not tasks:
        text = "asks for no workers, or for fewer than its own minimum"
        return Explanation(rule="no-workers", text=text)
    barriers = [barrier_of(world, gang, tasks) for _ in choices(world, gang)]
    if (barrier := barriers[0]) is not None and None not in barriers:
        return _barred(barrier, request_of(world, gang, again=False)[barrier.resource])
    return _room(world, gang, tasks)


def _barred(barrier: Barrier, asked: int) -> Explanation:
    held, unit = barrier.would_hold - asked, _unit(barrier)
    text = (
        f"{_bound(barrier)} and holds {_amount(barrier.resource, held)}; "
        f"this needs {_amount(barrier.resource, asked)}"
    )
    numbers = {"allowed": barrier.allowed, "held": held, "needs": asked}
    names = {"queue": barrier.queue, "resource": unit}
    return Explanation(rule=barrier.rule, text=text, numbers=numbers, names=names)


def _bound(barrier: Barrier) -> str:
    kind = "hold at most" if barrier.rule == "limit" else "hold without preemption at most"
    allowed = _amount(barrier.resource, barrier.allowed)
    return f"{barrier.queue} may {kind} {allowed} {_unit(barrier)}"


def _unit(barrier: Barrier) -> str:
    return UNITS[barrier.resource] if barrier.part is None else barrier.part.gpus


def _room(world: World, gang: Gang, tasks: list[Task]) -> Explanation:
    worst = searches(world, gang, tasks)[0]
    needed, able, fits, shapes = worst.needed, worst.able, worst.fits, worst.shapes
    excluded, nodes = worst.excluded, len(world.machines)
    numbers = {"nodes_needed": needed, "nodes_free": fits, "nodes_able": able, "nodes": nodes}
    count = len(worst.tasks)
    wanted = " or ".join(dict.fromkeys(_wanted(shape, count) for shape in shapes))
    if len(gang.roles) > 1:
        wanted = f"{wanted} as {worst.tasks[0].role}"
    told = {name: count for name, count in sorted(excluded.items()) if count}
    if able < needed:
        text = f"needs {wanted}; only {able} of {nodes} nodes could ever hold that"
        return Explanation(rule="no-such-gpu", text=text, numbers=numbers, excluded=told)
    if not could_gather(world, gang, tasks):
        text = f"needs {wanted} within one {_level(gang)}; none is that large"
        return Explanation(rule="topology", text=text, numbers=numbers, excluded=told)
    placed = _tried(world, gang)
    if placed:
        return _placeable(placed, numbers)
    free = sum(world.machines[name].free_milli for name in world.machines)
    numbers["free_milli"] = free
    near = f" within one {_level(gang)}" if _stays_near(gang) else ""
    in_all = f" ({gpus(free)} GPUs free in all)" if any(map(_takes_gpus, shapes)) else ""
    text = f"needs {wanted}{near}; {fits} free now{in_all}"
    barred = (barrier for shape in shapes for barrier in barred_cells(world, gang, shape).values())
    text += "".join(dict.fromkeys(f"; {_bound(barrier)}" for barrier in barred))
    kept, spent = _kept(world, gang)
    return Explanation(
        rule="no-room",
        text=text,
        numbers=numbers | _budget_numbers(spent),
        names={"budget": spent.queue} if spent is not None else {},
        excluded=told,
        kept=dict(sorted(kept.items())),
        quota=_standing(world, gang),
        evicts=_evicts(kept),
        sooner=_sooner(world, gang, tasks),
    )


def _tried(world: World, gang: Gang) -> str:
    """Whether it would get its places at once (`now`), or once somebody has gone (`later`)."""
    mark, found = world.mark(), ""
    if any(place_gang(world, gang, promised=False) for _ in choices(world, gang)):
        found = "later" if gang.any_in((PIPELINED,)) else "now"
    world.back_to(mark)
    return found


def _placeable(placed: str, numbers: dict[str, int]) -> Explanation:
    if placed == "now":
        return Explanation(rule="next", text="fits and is placed in its turn", numbers=numbers)
    text = "fits as soon as those have gone that are being stopped"
    return Explanation(rule="releasing", text=text, numbers=numbers)


def _kept(world: World, gang: Gang) -> tuple[Counter[str], Spent | None]:
    """The running gangs by why they may keep what they hold; `could go` of those that need not.
    Of the budgets that keep some, the one that frees first.
    """
    taker = taker_of(world, gang)
    taking = may_take(world.accounts.standings(), taker)
    budgets, spent = EvictionBudgets(world), list[Spent]()
    found: Counter[str] = Counter()
    for other in islice(world.gangs.values(), HOLDERS_MAX):
        if other is gang or not other.any_in(PLACED) or other.queue not in world.accounts:
            continue
        reason = _kept_by(world, gang, other, taker if taking else None)
        if reason == COULD_GO and (none_left := budgets.spent_on(other)) is not None:
            reason = f"of {none_left.queue}, which may lose no more for now"
            spent.append(none_left)
        found[reason] += 1
    return found, min(spent, key=lambda one: (one.free_at_us, one.queue), default=None)


def _kept_by(world: World, gang: Gang, other: Gang, taker: Taker | None) -> str:
    """Why a running gang may keep what it holds, budgets aside; without a `taker` no other queue
    has to give anything.
    """
    if not other.preemptible:
        return "cannot be preempted"
    if other.queue == gang.queue:
        return _within(world, gang, other)
    if taker is None:
        return "of others, and its own project has its fair share"
    if not may_lose(world.accounts.standings(), taker, other.queue):
        return "within the fair share of their projects"
    kept = taking(world.settings, gang.queue, taker.request)
    if safe_from_reclaim(world.accounts, kept, other, world.now_us):
        return "protected, as they started a moment ago"
    return COULD_GO


def _budget_numbers(spent: Spent | None) -> dict[str, int]:
    if spent is None:
        return {}
    return {
        "evictions_max": spent.evictions_max,
        "evictions_per_us": spent.per_us,
        "evictions_free_at_us": spent.free_at_us,
    }


def _within(world: World, gang: Gang, other: Gang) -> str:
    if other.priority >= gang.priority:
        return "of the same project, not less important"
    if safe_from_preemption(world.accounts, other, world.now_us):
        return "protected, as they started a moment ago"
    return COULD_GO


def _evicts(kept: Counter[str]) -> str:
    if not kept:
        return ""
    could = kept[COULD_GO]
    parts = [f"{count} {reason}" for reason, count in sorted(kept.items()) if reason != COULD_GO]
    if could:
        return f"{could} could be stopped, but that would not make room for all of it"
    return "nobody may be stopped for it: " + ", ".join(parts)


def _standing(world: World, gang: Gang) -> str:
    account = world.accounts.by_name[gang.queue]
    quota = account.spec.quota[GPU]
    guaranteed = "all" if quota < 0 else gpus(quota)
    return (
        f"{gang.queue} holds {gpus(account.held[GPU])} GPUs, is guaranteed {guaranteed}, and its "
        f"fair share now is {gpus(account.share[GPU])}"
    )


def _sooner(world: World, gang: Gang, tasks: list[Task]) -> str:
    """The largest smaller request that would start now, of a gang without roles."""
    if len(gang.roles) > 1:
        return ""
    mark = world.mark()
    for count in range(len(tasks) - 1, 0, -1):
        found = place_gang(world, gang, promised=False, most=count)
        waits = gang.any_in((PIPELINED,))
        world.back_to(mark)
        if found and not waits:
            return f"nodes: {count}"
    shape = tasks[0].shape
    for devices in range(shape.devices - 1, 0, -1) if not shape.is_shared else ():
        smaller = msgspec.structs.replace(shape, devices=devices)
        fit = (machine.fit(smaller) for machine in world.machines.values() if _open(machine, shape))
        if len(tasks) == 1 and any(found is not None and found[1] for found in fit):
            return f"gpus: {devices}"
    return ""


def _open(machine: Machine, shape: Shape) -> bool:
    spec = machine.spec
    if not spec.accepting or (shape.only is not None and spec.name not in shape.only):
        return False
    if shape.contained and not spec.has_engine:
        return False
    if not all(taint in shape.tolerations for taint in spec.taints):
        return False
    return all(spec.labels.get(label) == value for label, value in shape.labels)


def _stays_near(gang: Gang) -> bool:
    constraint = gang.root.constraint
    return constraint is not None and bool(constraint.required)


def _level(gang: Gang) -> str:
    constraint = gang.root.constraint
    return constraint.required if constraint is not None else "domain"


def _wanted(shape: Shape, count: int) -> str:
    engine = " a container engine and" if shape.contained else ""
    nodes = f"{count} node{'s' if count > 1 else ''} with{engine}"
    if shape.device_memory_bytes:
        return f"{nodes} {shape.device_memory_bytes} MiB of one GPU each"
    if not shape.devices:
        return f"{nodes} {gpus(shape.cpu_milli)} CPUs each"
    amount = gpus(shape.devices * shape.device_milli)
    return f"{nodes} {shape.model or 'GPU'}:{amount} each"


def _takes_gpus(shape: Shape) -> bool:
    return bool(shape.devices or shape.device_memory_bytes)


def gpus(milli: int) -> str:
    """`2500` as people write it: 2.5."""
    whole, part = divmod(milli, 1000)
    return f"{whole}.{part:03d}".rstrip("0").rstrip(".") if part else str(whole)


def _amount(resource: int, amount: int) -> str:
    return f"{amount // 10**9} GB" if resource == MEMORY else gpus(amount)
