"""As which account a user's jobs run, and whose jobs a node takes that cannot isolate them.

Rule: a number belongs to one user of one project, is the same on every node, and is never given
again: files on volumes outlive jobs, users and projects. What has no number waits until the range
or its project's part of it is larger.
"""

from __future__ import annotations

import msgspec

from headrace.decider import Draft
from headrace.events import Entry
from headrace.events.accounts import EVERYBODY, UNISOLATED, AccountAssigned
from headrace.events.nodes import NodeJoined
from headrace.placement.offers import Offer
from headrace.placement.state import Job, State
from headrace.scheduling.gangs import Shape

Options = tuple[tuple[Shape, ...], ...]
Pair = tuple[str, str]  # project, user


def number_of(state: State, job: Job) -> int:
    """The number of the account that the job runs as; 0 while it has none."""
    return state.accounts.get(job.project, {}).get(job.user, 0)


def lack_of(state: State, job: Job) -> str:
    """Why there is no account for this job, and what to do; empty if there is or can be one."""
    if number_of(state, job):
        return ""
    return Numbers(state).lack_in(job.project)


class Numbers:
    """Numbers that are assigned in one turn, each counting for the next."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._new: dict[Pair, int] = {}

    def lack_in(self, project: str) -> str:
        """Why no further account can be assigned to this project, and what to do; empty if one can."""
        in_all = self._state.setting("accounts_max")
        in_project = self._state.setting("accounts_project_max")
        if self._last() >= in_all:
            return (
                f"all {in_all} accounts that nodes reserve for jobs are assigned: submit as a user "
                f"or publisher whose jobs ran in {project} before"
            )
        if self._held(project) >= in_project:
            return (
                f"project {project} has all {in_project} accounts that one project may have: submit "
                "as a user or publisher whose jobs ran there before, or in another project"
            )
        return ""

    def assign(self, job: Job) -> Draft:
        """The decision that gives this job's user a number, who has none yet."""
        number = self._last() + 1
        self._new[job.project, job.user] = number
        event = AccountAssigned(project=job.project, user=job.user, account=number)
        return Draft(event=event, causation=job.admitted_at, traceparent=job.traceparent)

    def has(self, job: Job) -> bool:
        """Whether the job's user has a number, perhaps since this turn."""
        return bool(number_of(self._state, job)) or (job.project, job.user) in self._new

    def _last(self) -> int:
        return self._state.accounts_assigned + len(self._new)

    def _held(self, project: str) -> int:
        new = sum(of == project for of, _ in self._new)
        return len(self._state.accounts.get(project, {})) + new


def assigned(state: State, _entry: Entry, event: AccountAssigned) -> None:
    """The number is taken, for ever."""
    state.accounts.setdefault(event.project, {})[event.user] = event.account
    state.accounts_assigned = max(state.accounts_assigned, event.account)


def is_full(state: State, project: str) -> bool:
    """Whether no further account can be assigned to this project."""
    return Numbers(state).lack_in(project) != ""


def is_selective(said: NodeJoined) -> bool:
    """Whether the node takes only the jobs of one user, because it cannot isolate anybody's."""
    return said.isolation == UNISOLATED and said.trusted != EVERYBODY


def taints_of(said: NodeJoined) -> tuple[str, ...]:
    """What a job must tolerate to be placed there."""
    return (*said.taints, _only(said.trusted)) if is_selective(said) else said.taints


def trusted_on(state: State) -> dict[str, None]:
    """The users whose jobs run on nodes that take nobody else's."""
    said = (machine.said for machine in state.machines.values())
    return {node.trusted: None for node in said if is_selective(node) and node.trusted}


def tolerating(offer: Offer, user: str) -> Offer:
    """The offer for a job of a user whom such a node trusts."""
    mine = (_only(user),)

    def each(options: Options) -> Options:
        return tuple(
            tuple(msgspec.structs.replace(shape, tolerations=mine) for shape in shapes)
            for shapes in options
        )

    return offer._replace(options=each(offer.options), anywhere=each(offer.anywhere))


def _only(user: str) -> str:
    return f"only {user}"
