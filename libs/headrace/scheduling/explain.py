"""Why a gang waits: asked of the very world that decides, decided on by nobody.

Rule: pure; whatever is tried out is taken back. Everything is bounded: holders looked at, names
told.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from headrace.scheduling.accounts import Barrier
from headrace.scheduling.amounts import CPU, GPU, MEMORY
from headrace.scheduling.explanation import Explanation
from headrace.scheduling.gangs import PIPELINED, PLACED, Gang, Shape, Task, next_tasks
from headrace.scheduling.legality import Taker, may_lose, may_take
from headrace.scheduling.machines import Machine, takes
from headrace.scheduling.placing import barrier_of, choices, place_gang, request_of
from headrace.scheduling.protection import safe_from_preemption, safe_from_reclaim
from headrace.scheduling.topology import could_gather
from headrace.scheduling.world import World

HOLDERS_MAX = 2_000  # running gangs judged for one explanation
UNITS = {GPU: "GPUs", CPU: "CPUs", MEMORY: "of memory"}

NOT_ACCEPTING = "silent or cordoned"
ELSEWHERE = "outside its pools, volumes or labels"
OTHER_KIND = "another kind of GPU"
TOO_SMALL = "too small"
TAKEN = "taken"
OWN = "already has a worker of it"


def why_waiting(world: World, gang: Gang) -> Explanation:
    """What has to change before this gang gets places."""
    if gang.queue not in world.accounts:
        text = f"project {gang.queue} does not exist; headrace apply creates it"
        return Explanation(rule="unknown-project", text=text, names={"project": gang.queue})
    tasks = next_tasks(gang, again=False)
    barrier = barrier_of(world, gang, tasks)
    if barrier is not None:
        return _barred(barrier, request_of(world, gang, again=False)[barrier.resource])
    return _room(world, gang, tasks)


def _barred(barrier: Barrier, asked: int) -> Explanation:
    kind = "hold at most" if barrier.rule == "limit" else "hold without preemption at most"
    held, unit = barrier.would_hold - asked, UNITS[barrier.resource]
    text = (
        f"{barrier.queue} may {kind} {_amount(barrier.resource, barrier.allowed)} {unit} and holds "
        f"{_amount(barrier.resource, held)}; this needs {_amount(barrier.resource, asked)}"
    )
    numbers = {"allowed": barrier.allowed, "held": held, "needs": asked}
    names = {"queue": barrier.queue, "resource": unit}
    return Explanation(rule=barrier.rule, text=text, numbers=numbers, names=names)


def _room(world: World, gang: Gang, tasks: list[Task]) -> Explanation:
    needed = len(tasks) if tasks and tasks[0].shape.apart else 1
    shapes = gang.options or tuple(dict.fromkeys(task.shape for task in tasks))
    excluded = min((_excluded(world, gang, shape) for shape in shapes), key=_exclusion_rank)
    nodes = len(world.machines)
    fits = nodes - excluded.total()
    able = fits + excluded[TAKEN] + excluded[OWN] + excluded[NOT_ACCEPTING]
    numbers = {"nodes_needed": needed, "nodes_free": fits, "nodes_able": able, "nodes": nodes}
    wanted = " or ".join(_wanted(shape, len(tasks)) for shape in shapes)
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
    near = f" within one {_level(gang)}" if _is_bound(gang) else ""
    text = f"needs {wanted}{near}; {fits} free now ({gpus(free)} GPUs free in all)"
    kept = _kept(world, gang)
    return Explanation(
        rule="no-room",
        text=text,
        numbers=numbers,
        excluded=told,
        kept=dict(sorted(kept.items())),
        quota=_standing(world, gang),
        evicts=_evicts(kept),
        sooner=_sooner(world, gang, tasks),
    )


def _excluded(world: World, gang: Gang, shape: Shape) -> Counter[str]:
    """The machines without room for a task of this shape, by the first thing that excludes them."""
    own = {p.node for t in gang.all_tasks() if t.state in PLACED and (p := t.coming or t.place)}
    found: Counter[str] = Counter()
    for name, machine in world.machines.items():
        spec = machine.spec
        if (shape.only is not None and name not in shape.only) or any(
            spec.labels.get(label) != value for label, value in shape.labels
        ):
            found[ELSEWHERE] += 1
        elif shape.devices and not any(takes(shape, kind) for kind, _ in spec.usable):
            found[OTHER_KIND] += 1
        elif Machine(spec).fit(shape) is None:
            found[TOO_SMALL] += 1
        elif not spec.accepting:
            found[NOT_ACCEPTING] += 1
        elif shape.apart and name in own:
            found[OWN] += 1
        elif (fit := machine.fit(shape)) is None or not fit[1]:
            found[TAKEN] += 1
    return found


def _exclusion_rank(excluded: Counter[str]) -> tuple[int, int]:
    return excluded.total(), excluded.total() - excluded[TAKEN]


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


def _kept(world: World, gang: Gang) -> Counter[str]:
    """The running gangs by why they may keep what they hold; `could go` of those that need not."""
    standings = world.accounts.standings()
    request = request_of(world, gang, again=False)
    taker = Taker(queue=gang.queue, request=request, preemptible=gang.preemptible)
    taking = may_take(standings, taker)
    found: Counter[str] = Counter()
    for number, other in enumerate(world.gangs.values()):
        if number >= HOLDERS_MAX:
            break
        if other is gang or not other.any_in(PLACED) or other.queue not in world.accounts:
            continue
        if not other.preemptible:
            found["cannot be preempted"] += 1
        elif other.queue == gang.queue:
            found[_within(world, gang, other)] += 1
        elif not taking:
            found["of others, and its own project has its fair share"] += 1
        elif not may_lose(standings, taker, other.queue):
            found["within the fair share of their projects"] += 1
        elif safe_from_reclaim(world.accounts, gang.queue, other, world.now_us):
            found["protected, as they started a moment ago"] += 1
        else:
            found["could go"] += 1
    return found


def _within(world: World, gang: Gang, other: Gang) -> str:
    if other.priority >= gang.priority:
        return "of the same project, not less important"
    if safe_from_preemption(world.accounts, other, world.now_us):
        return "protected, as they started a moment ago"
    return "could go"


def _evicts(kept: Counter[str]) -> str:
    if not kept:
        return ""
    could = kept["could go"]
    parts = [f"{count} {reason}" for reason, count in sorted(kept.items()) if reason != "could go"]
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
    """The largest smaller request that would start now."""
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
    return all(spec.labels.get(label) == value for label, value in shape.labels)


def _is_bound(gang: Gang) -> bool:
    constraint = gang.root.constraint
    return constraint is not None and bool(constraint.required)


def _level(gang: Gang) -> str:
    constraint = gang.root.constraint
    return constraint.required if constraint is not None else "domain"


def _wanted(shape: Shape, count: int) -> str:
    nodes = f"{count} node{'s' if count > 1 else ''} with"
    if shape.device_memory_bytes:
        return f"{nodes} {shape.device_memory_bytes} MiB of one GPU each"
    if not shape.devices:
        return f"{nodes} {gpus(shape.cpu_milli)} CPUs each"
    amount = gpus(shape.devices * shape.device_milli)
    return f"{nodes} {shape.model or 'GPU'}:{amount} each"


def gpus(milli: int) -> str:
    """`2500` as people write it: 2.5."""
    whole, part = divmod(milli, 1000)
    return f"{whole}.{part:03d}".rstrip("0").rstrip(".") if part else str(whole)


def _amount(resource: int, amount: int) -> str:
    return f"{amount // 10**9} GB" if resource == MEMORY else gpus(amount)
