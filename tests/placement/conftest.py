"""Histories for placement's tests: facts of admission, quota and nodes in, decisions out."""

import msgspec
import pytest

from headrace.events import Entry, Header
from headrace.events.accounts import AccountAssigned
from headrace.events.asked import Accelerator, Gang
from headrace.events.attempts import AttemptExited, AttemptStarted
from headrace.events.gangs import GangGrown, GangPlaced
from headrace.events.jobs import JobAdmitted, JobCancelling, JobEligible
from headrace.events.nodes import Device, NodeJoined
from headrace.events.queues import Queue, QueueConfigured
from headrace.placement.decide import DECIDER

GB = 10**9
SECOND_US = 1_000_000


class History:
    """A log in memory in front of placement's decider. `cut` replaces the state by its snapshot."""

    def __init__(self):
        self.state = DECIDER.initial()
        self.entries = []
        self.now_us = SECOND_US
        self.reports = {}

    def given(self, *events, causation=0, basis=0, decided_at_us=0):
        for event in events:
            self.now_us += 1000
            trace = f"trace-{getattr(event, 'job', '')}"
            header = Header(
                causation=causation, basis=basis, decided_at_us=decided_at_us, traceparent=trace
            )
            position = len(self.entries) + 1
            entry = Entry(position=position, recorded_at_us=self.now_us, header=header, event=event)
            self.entries.append(entry)
            DECIDER.evolve(self.state, entry)
        return len(self.entries)

    def decided(self):
        """One turn: what was decided, which is in the log now."""
        basis, now_us = len(self.entries), self.now_us
        drafts = DECIDER.decide(self.state, now_us)
        for draft in drafts:
            self.given(draft.event, causation=draft.causation, basis=basis, decided_at_us=now_us)
        return [draft.event for draft in drafts]

    def settled(self, turns=20):
        """Turns until nothing more is decided."""
        events = []
        for _ in range(turns):
            more = self.decided()
            if not more:
                return events
            events += more
        raise AssertionError("placement does not come to rest")

    def cut(self):
        data = msgspec.json.encode(self.state)
        self.state = msgspec.json.decode(data, type=DECIDER.state)
        assert msgspec.json.encode(self.state) == data

    def node(self, name, gpus=8, model="H100-80GB", **changes):
        devices = tuple(
            Device(device=f"{name}-gpu{i}", index=i, model=model, memory_bytes=80 * GB)
            for i in range(gpus)
        )
        joined = NodeJoined(
            node=name, host=name, address=f"10.0.0.{name[1:]}", boot="boot-1", incarnation="j1",
            public_key="", devices=devices, cpu_milli=64_000, memory_bytes=512 * GB,
        )  # fmt: skip
        joined = msgspec.structs.replace(joined, **changes)
        self.given(joined)
        return joined

    def queue(self, name, parent="", kind="project", **numbers):
        queue = Queue(queue=name, kind=kind, parent=parent, **numbers)
        self.given(QueueConfigured(name=name, queue=queue, change="created"))

    def job(self, name, project="default", gpus=1000, eligible=True, gang=None, **fields):
        """Admit a job; unless `account=False`, of a user of whom jobs ran in this project before."""
        if gang is None:
            kinds = (Accelerator(milli=gpus),) if gpus else ()
            gang = Gang(nodes=fields.pop("nodes", 1), accelerators=kinds, cpu_milli=1000)
        if fields.pop("account", True) and "ada" not in self.state.accounts.get(project, {}):
            number = self.state.accounts_assigned + 1
            self.given(AccountAssigned(project=project, user="ada", account=number))
        fields = {"priority": 40, "user": "ada", "name": name, "requested_at": 7} | fields
        self.given(JobAdmitted(job=name, project=project, gang=gang, **fields))
        if eligible:
            self.given(JobEligible(job=name, project=project))

    def cancel(self, name, project="default", **fields):
        self.given(JobCancelling(job=name, project=project, **fields))

    def placed(self, name):
        """The last placement of the job."""
        found = [e.event for e in self.entries if isinstance(e.event, GangPlaced)]
        return next(event for event in reversed(found) if event.job == name)

    def workers(self, name):
        """All workers that the job's last attempt ever had."""
        placed = self.placed(name)
        grown = (e.event for e in self.entries if isinstance(e.event, GangGrown))
        mine = (e for e in grown if (e.job, e.attempt) == (name, placed.attempt))
        return [*placed.workers, *(worker for event in mine for worker in event.workers)]

    def _report(self, kind, name, ranks, attempt, **fields):
        placed = self.placed(name)
        for worker in self.workers(name):
            if ranks is None or worker.rank in ranks:
                number = self.reports[worker.node] = self.reports.get(worker.node, 0) + 1
                self.given(
                    kind(
                        job=name, project=placed.project, attempt=attempt or placed.attempt,
                        rank=worker.rank, node=worker.node, incarnation="j1", report=number,
                        **fields,
                    )
                )  # fmt: skip

    def starts(self, name, ranks=None, attempt=0, **fields):
        self._report(AttemptStarted, name, ranks, attempt, **fields)

    def exits(self, name, ranks=None, attempt=0, reason="exited", **fields):
        self._report(AttemptExited, name, ranks, attempt, reason=reason, **fields)


@pytest.fixture
def history():
    """A fleet of two nodes with eight GPUs each, and the project `default`."""
    history = History()
    history.node("n1")
    history.node("n2")
    history.queue("default")
    return history


@pytest.fixture
def empty_history():
    """Nothing has happened yet."""
    return History()
