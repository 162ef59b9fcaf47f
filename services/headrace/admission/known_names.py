"""Among which names an unknown one is looked for, when somebody is told that there is none.

Rule: of its own project alone, where names are a project's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from headrace.admission.derived import index_of
from headrace.admission.state import State
from headrace.documents.wording import COMPARED_MAX
from headrace.events import Refusal
from headrace.runtime.suggestions import Names

_WAITING_MAX = 10


def names_of(state: State, refusal: Refusal, project: str) -> Names:
    """Those that `refusal.unknown` is the kind of."""
    if refusal.unknown == "job":
        return Names(_jobs(state, project), are_listed=False)
    find = _KINDS.get(refusal.unknown)
    return Names(find(state, project) if find is not None else ())


def _jobs(state: State, project: str) -> Sequence[str]:
    """The live ones, the latest first, and then those that have ended."""
    live, ended = index_of(state).live, state.outcomes_of.get(project, {})
    latest = (*live.of(project)[-COMPARED_MAX:], *islice(reversed(ended), COMPARED_MAX))
    return latest[:COMPARED_MAX]


def _projects(state: State, _project: str) -> Sequence[str]:
    return sorted(name for name, queue in state.queues.items() if queue.kind == "project")


def _templates(state: State, project: str) -> Sequence[str]:
    return sorted({*state.templates.get(project, {}), *state.templates.get("", {})})


def _levels(state: State, _project: str) -> Sequence[str]:
    pools = (state.pools[name] for name in sorted(state.pools))
    return [*dict.fromkeys(level for pool in pools for level in pool.topology)]


def _waiting(state: State, _project: str) -> Sequence[str]:
    names = (name for name, member in sorted(state.members.items()) if not member.approved)
    return list(islice(names, _WAITING_MAX))


_KINDS: dict[str, Callable[[State, str], Sequence[str]]] = {
    "project": _projects,
    "department or project": lambda state, _project: sorted(state.queues),
    "pool": lambda state, _project: [*state.pools],
    "level": _levels,
    "volume": lambda state, _project: sorted(state.volumes),
    "template": _templates,
    "secret": lambda state, project: sorted(state.secrets.get(project, {})),
    "publisher": lambda state, project: sorted(state.publishers.get(project, {})),
    "webhook": lambda state, project: sorted(state.hooks.get(project, {})),
    "waiting node": _waiting,
}
