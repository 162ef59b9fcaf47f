"""Histories of jobs that leave their GPUs and come back."""

from tests.placement.conftest import History

from headrace.events import tag_of
from headrace.events.guards import guards_of
from headrace.events.jobs import Checkpoint, JobEligible
from headrace.events.pauses import (
    AttemptLocked,
    AttemptPaused,
    JobPausing,
    JobResuming,
)

CAN = ("checkpoint",)
SAVES = Checkpoint(signal="USR1", grace_us=30_000_000)


def tags(events):
    return [tag_of(event).removesuffix(".v1") for event in events]


def fleet(*, nodes=1, gpus=2, pausing=CAN, **changes):
    history = History()
    for number in range(nodes):
        history.node(f"n{number + 1}", gpus=gpus, pausing=pausing, **changes)
    history.queue("default")
    return history


def runs(history, name, **fields):
    history.job(name, **fields)
    history.settled()
    history.starts(name)
    history.settled()


def pause(history, name):
    history.given(JobPausing(job=name, project="default", user="ada"))
    return history.settled()


def resume(history, name):
    history.given(JobResuming(job=name, project="default", user="ada"))
    history.given(JobEligible(job=name, project="default"))
    return history.settled()


def report(history, kind, name, ranks=None, **fields):
    asked_at = history.state.jobs[name].run.pause.position
    history._report(
        kind, name, ranks, history.state.jobs[name].run.attempt, asked_at=asked_at, **fields
    )
    return history.settled()


def away(history, name):
    """Take a running job off its devices."""
    pause(history, name)
    report(history, AttemptLocked, name)
    return report(history, AttemptPaused, name)


def booked(history):
    """What the log's own counters say of each device, and what nodes say."""
    totals = {}
    for entry in history.entries:
        for guard in guards_of(entry.event):
            totals[guard.key] = totals.get(guard.key, 0) + guard.delta
    nodes = {
        f"gpu/{d.device}": d.used_milli for n in history.state.nodes.values() for d in n.devices
    }
    assert {key: milli for key, milli in totals.items() if milli} == {
        key: milli for key, milli in nodes.items() if milli
    }
    return sum(totals.values())
