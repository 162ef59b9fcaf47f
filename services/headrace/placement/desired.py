"""The signed document that tells a node what should run there.

Rule: always the whole truth about one node as of one position, assembled without waiting for
anything; what takes time (sealing launches) is done before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from headrace.bus.agents import Assignment, Desired, Signed
from headrace.events.gangs import Worker
from headrace.events.jobs import Checkpoint
from headrace.placement import account_rules
from headrace.placement.derived import index_of
from headrace.placement.launches import Launches
from headrace.placement.life_rules import CANCELLED
from headrace.placement.pause_rules import BROKEN, DROPPED, SIGNAL
from headrace.placement.runs import Run
from headrace.placement.state import Job, Machine, State
from headrace.vault import sign

NO_CHECKPOINT = Checkpoint(signal="", grace_us=0)
GAINER_WAITS_S_MAX = 120  # for who is preempted to save itself

Attempt = tuple[str, int]  # job, attempt
Sealed = tuple[str, bytes]  # the public key it is sealed to, a launch

_ENCODER = msgspec.json.Encoder()


class DesiredStates:
    """Makes the documents, keeping each worker's assignment while its attempt lives. `settled` says
    which of a node's reports need not be repeated.
    """

    def __init__(self, launches: Launches, grant_key: bytes, settled: Callable[[str], int]) -> None:
        self._launches, self._settled = launches, settled
        self._grant_key = grant_key
        self._sealed: dict[Attempt, dict[int, Sealed]] = {}  # by rank
        self._told: dict[str, Desired] = {}  # by node: its last document, as of no position

    async def prepare(self, state: State, node: str) -> None:
        """Seal every launch that this node needs and has not got yet. Raises `StoreError`."""
        for job_id in list(index_of(state).on_node.get(node, ())):
            job = state.jobs.get(job_id)
            for worker in _here(job, node):
                if _to_start(job, worker):
                    await self._seal(state, job_id, job, worker)

    def said(self, state: State, node: str) -> Desired | None:
        """What the node's document says, as of no epoch and position; None when the node is unknown or
        a launch is not sealed yet.
        """
        machine = state.machines.get(node)
        if machine is None:
            return None
        assignments: list[Assignment] = []
        grace_s = state.setting("stop_grace_s")
        for job_id in index_of(state).on_node.get(node, ()):
            job = state.jobs[job_id]
            for worker in _here(job, node):
                assignment = self._assignment(state, job_id, worker, grace_s)
                if assignment is None:
                    return None
                assignments.append(assignment)
        assignments += _ending(machine, grace_s)
        return Desired(
            node=node,
            epoch=0,
            position=0,
            incarnation=machine.said.incarnation,
            recorded_through=self._settled(node),
            assignments=tuple(assignments),
            **_lineage(state),
        )

    def is_told(self, said: Desired) -> bool:
        """Whether its node's last document said just that."""
        return self._told.get(said.node) == said

    def forget_told(self, node: str) -> None:
        """The node's last document was not sent."""
        self._told.pop(node, None)

    def document(self, said: Desired, at: tuple[int, int], renewed_ns: int = 0) -> Signed:
        """The document that says this, `at` this epoch and position."""
        self._told[said.node] = said
        epoch, position = at
        document = _ENCODER.encode(
            msgspec.structs.replace(said, epoch=epoch, position=position, renewed_ns=renewed_ns)
        )
        return Signed(document=document, signature=sign(self._grant_key, document))

    def foreword(self, state: State, node: str, at: tuple[int, int]) -> Signed:
        """What an agent gets that follows another line of history: which one this is."""
        epoch, position = at
        document = _ENCODER.encode(
            Desired(
                node=node,
                epoch=epoch,
                position=position,
                incarnation="",
                recorded_through=0,
                **_lineage(state),
            )
        )
        return Signed(document=document, signature=sign(self._grant_key, document))

    def dismissal(self, node: str, epoch: int, position: int, why: str) -> Signed:
        """What an agent gets that is not this node, or no longer."""
        document = _ENCODER.encode(
            Desired(
                node=node,
                epoch=epoch,
                position=position,
                incarnation="",
                recorded_through=0,
                dismissed=why,
            )
        )
        return Signed(document=document, signature=sign(self._grant_key, document))

    def forget(self, job_id: str, attempt: int, ranks: Iterable[int] = ()) -> None:
        """These workers of the attempt are released, or all of it."""
        kept = self._sealed.get((job_id, attempt), {}) if ranks else {}
        for rank in ranks:
            kept.pop(rank, None)
        if not kept:
            self._sealed.pop((job_id, attempt), None)

    def forget_all(self) -> None:
        """Leadership ended."""
        self._sealed.clear()
        self._told.clear()

    async def _seal(self, state: State, job_id: str, job: Job | None, worker: Worker) -> None:
        machine = state.machines.get(worker.node)
        if job is None or job.run is None or machine is None:
            return
        attempt, key = (job_id, job.run.attempt), machine.said.public_key
        known = self._sealed.get(attempt, {}).get(worker.rank)
        if known is None or known[0] != key:
            sealed = await self._launches.sealed(state, job_id, job, worker)
            self._sealed.setdefault(attempt, {})[worker.rank] = (key, sealed)

    def _assignment(
        self, state: State, job_id: str, worker: Worker, grace_s: int
    ) -> Assignment | None:
        job, public_key = state.jobs[job_id], state.machines[worker.node].said.public_key
        run = job.run
        assert run is not None  # `_here` gives workers of live attempts
        known = self._sealed.get((job_id, run.attempt), {}).get(worker.rank)
        cpu_milli, memory_bytes = run.takes(worker)
        checkpoint = job.checkpoint or NO_CHECKPOINT
        reason = run.evicted or run.leaving.get(worker.rank, "")
        if not _to_start(job, worker):
            known = (public_key, b"")
        elif known is None or known[0] != public_key:
            return None
        return Assignment(
            job=job_id,
            attempt=run.attempt,
            rank=worker.rank,
            position=run.granted_at(worker.rank),
            project=job.project,
            shares=worker.devices,
            sealed=known[1],
            stop=bool(reason),
            stop_reason=_stop_reason(job, reason),
            grace_s=_grace_s(job, run, grace_s),
            max_duration_s=-(-job.max_duration_us // 1_000_000),
            replace_after_s=job.replace_after_us // 1_000_000,
            user=job.user,
            account=account_rules.number_of(state, job),
            cpu_milli=cpu_milli,
            memory_bytes=memory_bytes,
            traceparent=job.traceparent,
            port=worker.port,
            ports=worker.ports,
            stop_signal=checkpoint.signal if run.way == SIGNAL else "",
            checkpoint_signal=checkpoint.signal,
            checkpoint_grace_s=-(-checkpoint.grace_us // 1_000_000),
            phase=run.pause.phase if run.pause is not None else "",
            phase_at=run.pause.position if run.pause is not None else 0,
            peers=_peers(job, run),
            checkpoint=job.checkpoints.get(worker.rank, ""),
        )


def _lineage(state: State) -> dict[str, Any]:
    line = state.lineage
    return {"lineage": line.name, "lineage_epoch": line.epoch, "lineage_at": line.began_at}


def _ending(machine: Machine, grace_s: int) -> list[Assignment]:
    """What runs there unplaced, if an operator wants it ended."""
    return [
        Assignment(
            job=held.job,
            attempt=held.attempt,
            rank=held.rank,
            position=machine.joined,
            project=held.project,
            stop=True,
            stop_reason="cancelled",
            grace_s=grace_s,
        )
        for held in (machine.strays if machine.ends_strays else ())
    ]


def _peers(job: Job, run: Run) -> tuple[str, ...]:
    """Where a gang's nodes are; empty for a worker alone."""
    if len(run.workers) == 1 and not job.is_elastic:
        return ()
    return tuple(sorted({worker.address for worker in run.workers}))


def _grace_s(job: Job, run: Run, otherwise_s: int) -> int:
    """How long it has to end: what has left its devices can do nothing with it any more."""
    if not run.booked or job.cancelled_now:
        return 0
    if run.way != SIGNAL or job.checkpoint is None:
        return otherwise_s
    asked_s = -(-job.checkpoint.grace_us // 1_000_000)
    return min(asked_s, GAINER_WAITS_S_MAX) if run.gainer else asked_s


STOP_REASONS = {
    "reclaimed": "preempted",
    "moved": "preempted",
    "device-faulty": "node-drain",
    DROPPED: "preempted",
    BROKEN: "preempted",
}  # as `$HEADRACE_STOP_REASON_FILE` names them
CANCELLED_FOR = ("idle",)  # why a job is cancelled, where that is told it too


def _stop_reason(job: Job, reason: str) -> str:
    if reason == CANCELLED and job.cancelling in CANCELLED_FOR:
        return job.cancelling
    return STOP_REASONS.get(reason, reason)


def _to_start(job: Job | None, worker: Worker) -> bool:
    """Whether the node may still need the launch: what has started, or is to stop, does not."""
    run = job.run if job is not None else None
    if run is None or run.evicted or worker.rank in run.leaving:
        return False
    return worker.rank not in run.started


def _here(job: Job | None, node: str) -> list[Worker]:
    """The workers on this node of which nobody has proved that they are gone."""
    run: Run | None = job.run if job is not None else None
    if run is None:
        return []
    return [w for w in run.workers if w.node == node and w.rank not in run.exits]
