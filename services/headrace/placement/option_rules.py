"""What a job may be given, the best first: the one place that decides the order of its options.

Rule: an option is one kind of GPU in one pool (or anywhere), and no gang mixes options; of one with
roles each has its own, all in the same pool, and they are judged by what they cost together. What is
known comes first: of a job whose pools have no order of their own the cheapest for an hour, of
others the cheapest for a step, as soon as each of the kinds it names was measured with its family
(nobody can say how long a step takes where roles have GPUs of different kinds).
Whatever is not known stays behind that in the order given. Prices of different currencies are not
compared: one currency comes after the other, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

import msgspec

from headrace.events.asked import Accelerator
from headrace.events.asked import Gang as Asked
from headrace.events.pools import Pool
from headrace.placement.state import Measured
from headrace.scheduling.cluster import DEVICE_MILLI
from headrace.scheduling.kinds import is_model

RANKED_MAX = 64  # options put in order for one job; the others are tried as they were given
NOWHERE = Pool(pool="", label="", value="")

_ANY = Accelerator(milli=0)


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One kind in one pool (None: anywhere). `price_micro` is that of one GPU and hour, where it is
    known; `step_time_us` what a step is predicted to take (0: nobody knows). Only on nodes that are
    `near` these volumes.
    """

    kind: Accelerator
    pool: Pool | None = None
    price_micro: int | None = None
    step_time_us: int = 0
    near: tuple[str, ...] = ()

    @property
    def pool_name(self) -> str:
        """The pool's name; empty for anywhere."""
        return self.pool.pool if self.pool is not None else ""


def options_by_role(
    asked: Asked, pools: Mapping[str, Pool], measured: Sequence[Measured]
) -> Iterator[tuple[Option, ...]]:
    """Every option, the best first, as one for each role in order."""
    if not asked.roles:
        yield from ((option,) for option in options_of(asked, pools, measured))
        return
    parts = list(asked.by_role().values())
    yield from _ranked_together(parts, pools, measured)
    yield from _together([_given(part, pools) for part in parts])


def options_of(
    asked: Asked, pools: Mapping[str, Pool], measured: Sequence[Measured]
) -> tuple[Option, ...]:
    """Every option of a gang without roles, the best first; `measured` is what is known of the
    job's family.
    """
    given = _given(asked, pools)
    if not asked.accelerators:
        return given
    if asked.by_price:
        ranked = _cheapest(asked, pools)
        given = tuple(sorted(given, key=lambda option: option.pool_name))
    else:
        ranked = _quickest(asked, pools, measured)
    return (*ranked[:RANKED_MAX], *given)


def family_of(project: str, job_id: str) -> str:
    """Whose measurements tell about a job: those of the jobs of its project with its name, which
    is what its id begins with.
    """
    group = job_id.partition("/")[0]
    return f"{project}/{group.rpartition('-')[0] or group}"


def numbers_of(option: Option, place: int) -> dict[str, int]:
    """What an option that was taken is judged by, and how many came before it."""
    found = {"option": place + 1}
    if option.price_micro is not None:
        found["price_micro"] = option.price_micro
    if option.step_time_us:
        found["predicted_step_us"] = option.step_time_us
    return found


def names_of(option: Option) -> dict[str, str]:
    """The kind of an option that was taken, what its price is in, and which volumes are near."""
    currency = option.pool.currency if option.pool and option.price_micro is not None else ""
    near = ", ".join(option.near)
    found = {"model": option.kind.model, "currency": currency, "near": near}
    return {name: value for name, value in found.items() if value}


def _given(asked: Asked, pools: Mapping[str, Pool]) -> tuple[Option, ...]:
    """As the job or its project has it: pool by pool, in each kind by kind."""
    kinds = asked.accelerators or (_ANY,)
    if not asked.pools:
        return tuple(Option(kind=kind) for kind in kinds)
    named = [pools.get(name, NOWHERE) for name in asked.pools]
    return tuple(Option(kind=kind, pool=pool) for pool in named for kind in kinds)


def _together(parts: Sequence[Sequence[Option]]) -> Iterator[tuple[Option, ...]]:
    """One option of each role, all in one pool, pool by pool as the first role has them."""
    for name in dict.fromkeys(option.pool_name for option in parts[0]):
        here = ([option for option in part if option.pool_name == name] for part in parts)
        yield from islice(product(*here), RANKED_MAX)


def _ranked_together(
    parts: Sequence[Asked], pools: Mapping[str, Pool], measured: Sequence[Measured]
) -> list[tuple[Option, ...]]:
    """What is known of all roles that ask for GPUs, what costs least together first; the others are
    in the same pool.
    """
    asking = [part for part in parts if part.accelerators]
    seen = measured if len(asking) == 1 else ()
    known = [
        _cheapest(part, pools) if part.by_price else _quickest(part, pools, seen) for part in asking
    ]
    if not known or not all(known):
        return []
    priced = iter(known)
    there = {option.pool_name: Option(kind=_ANY, pool=option.pool) for option in known[0]}
    every = [next(priced) if part.accelerators else list(there.values()) for part in parts]

    def rank(numbered: tuple[int, tuple[Option, ...]]) -> tuple[str, int, str, int]:
        number, options = numbered
        each = zip(parts, options, strict=True)
        cost = sum(part.nodes * _cost(option) for part, option in each)
        return (_currency(options[0]), cost, options[0].pool_name, number)

    return [options for _, options in sorted(enumerate(_together(every)), key=rank)][:RANKED_MAX]


def _cheapest(asked: Asked, pools: Mapping[str, Pool]) -> list[Option]:
    """What has a price, the lowest for an hour first."""
    priced = [option for kind in asked.accelerators for option in _priced(asked, kind, pools)]
    return _sorted(priced)


def _quickest(
    asked: Asked, pools: Mapping[str, Pool], measured: Sequence[Measured]
) -> list[Option]:
    """What has a price and was measured, the lowest for a step first; nothing while that is not
    known of every kind.
    """
    found: list[Option] = []
    for kind in asked.accelerators if measured else ():
        known = [
            msgspec.structs.replace(option, step_time_us=step_time_us)
            for option in _priced(asked, kind, pools)
            if (step_time_us := _predicted(asked, option.kind, measured))
        ]
        if not known:
            return []
        found += known
    return _sorted(found)


def _sorted(options: Sequence[Option]) -> list[Option]:
    """By currency, then what they cost for an hour, or for a step where that is known, then the
    pools' names; kinds that are equal stay in the order given.
    """

    def rank(numbered: tuple[int, Option]) -> tuple[str, int, str, int]:
        number, option = numbered
        return (_currency(option), _cost(option), option.pool_name, number)

    return [option for _, option in sorted(enumerate(options), key=rank)]


def _cost(option: Option) -> int:
    return (option.price_micro or 0) * option.kind.milli * max(1, option.step_time_us)


def _currency(option: Option) -> str:
    return option.pool.currency if option.pool is not None else ""


def _priced(asked: Asked, kind: Accelerator, pools: Mapping[str, Pool]) -> Iterator[Option]:
    """Every model of this kind that has a price, pool by pool. Where longer names are priced apart
    only these are sure to say what a GPU costs.
    """
    for name in asked.pools or sorted(pools):
        pool = pools.get(name, NOWHERE)
        for model in sorted(pool.prices):
            narrow = _narrower(model, kind.model)
            longer = (other for other in pool.prices if other != model and is_model(other, model))
            if narrow and not any(_narrower(other, narrow) for other in longer):
                one = msgspec.structs.replace(kind, model=narrow)
                yield Option(kind=one, pool=pool, price_micro=pool.prices[model])


def _narrower(one: str, other: str) -> str:
    """Of two models of which the one names the other as well, the other; empty when neither does."""
    if not other or is_model(one, other):
        return one
    return other if is_model(other, one) else ""


def _predicted(asked: Asked, kind: Accelerator, measured: Sequence[Measured]) -> int:
    """How long a step takes with as many GPUs of this model; 0 when that was never measured."""
    gpus, odd = divmod(asked.nodes * kind.milli, DEVICE_MILLI)
    if odd or kind.profile or asked.gpu_memory_bytes:
        return 0
    of_model = (m for m in measured if m.gpus == gpus and is_model(m.model, kind.model))
    return max((m.step_time_us for m in of_model), default=0)
