"""The same state in another order: every mapping shuffled, but those whose order means something.

Rule: an order means something only when it is the order of the log and is meant to decide. `MEANT`
names each such field with what its order says; a field that is not named here is shuffled.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

MEANT = {
    "admission.Group.live": "tasks end in the order in which they were admitted",
    "admission.State.expanding": "whoever asked first is expanded first",
    "admission.State.erasing": "whoever asked first is erased first",
    "admission.State.outcomes_of": "of each project the oldest is forgotten first",
    "admission.State.outcomes": "the oldest is forgotten first",
    "admission.State.pending": "requests are answered in the order of the log",
    "admission.State.stopping": "whoever was cancelled first is stopped first",
    "admission.Spread.left": "tasks are paused in the order in which they were admitted",
    "admission.State.spreading": "whoever was paused first is paused first",
    "admission.Stop.left": "tasks end in the order in which they were admitted",
    "metrics.State.accounts_due": "gangs are accounted for in the order of their release",
    "placement.Group.live": "tasks end in the order in which they were admitted",
    "placement.Run.exits": "the first failure is the one that is told",
    "placement.State.changes": "requests are answered in the order of the log",
    "placement.State.due": "what became due first is decided first",
    "placement.State.groups_due": "what became due first is decided first",
    "placement.State.pools_asked": "requests are answered in the order of the log",
    "placement.State.scheduling_asked": "requests are answered in the order of the log",
    "placement.State.queues": "of queues that stand alike the older one comes first",
    "quota.Group.waiting": "tasks compete in the order in which they were held",
    "quota.State.asked": "requests are answered in the order of the log",
    "quota.State.firm_waiting": "projects and their jobs are tried in the order of their waiting",
    "quota.State.fresh": "of each project jobs are judged in the order of their admission",
    "quota.State.groups": "groups are tried in the order of their admission",
    "quota.State.queues": "of queues that stand alike the older one gets the last thousandth",
}


def permuted(value: Any, chance: random.Random) -> Any:
    """A copy that is equal, with nothing remembered beside it, in a drawn order."""
    if isinstance(value, msgspec.Struct):
        fields = {f: getattr(value, f) for f in value.__struct_fields__}
        return type(value)(**{f: _field(value, f, fields[f], chance) for f in fields})
    if isinstance(value, dict):
        items = [(key, permuted(inner, chance)) for key, inner in value.items()]
        chance.shuffle(items)
        return dict(items)
    if isinstance(value, list | tuple):
        return type(value)([permuted(inner, chance) for inner in value])
    return value


def _field(owner: msgspec.Struct, name: str, value: Any, chance: random.Random) -> Any:
    if name_of(type(owner), name) in MEANT:
        return _in_order(value, chance)
    return permuted(value, chance)


def _in_order(value: dict[Any, Any], chance: random.Random) -> dict[Any, Any]:
    return {
        key: _in_order(inner, chance) if isinstance(inner, dict) else permuted(inner, chance)
        for key, inner in value.items()
    }


def name_of(owner: type[Any], field: str) -> str:
    """How `MEANT` calls a field: its service, its type and its name."""
    return f"{owner.__module__.split('.')[1]}.{owner.__name__}.{field}"
