"""Facts and decisions of others, for admission's tests."""

from headrace.admission.decide import DECIDER
from headrace.admission.known_names import names_of
from headrace.decider.testing import given
from headrace.events import project_of
from headrace.events.asked import Accelerator, Gang
from headrace.events.jobs import JobCancelRequested, JobEnterRequested, JobFinished, JobRequested
from headrace.events.nodes import Device, NodeJoined
from headrace.events.platform import ServiceLed
from headrace.events.pools import Pool, PoolConfigured
from headrace.events.queues import Queue, QueueConfigured
from headrace.runtime.suggestions import Suggestions

GB = 10**9


def project(name="vision", kind="project", **numbers):
    queue = Queue(queue=name, kind=kind, **numbers)
    return QueueConfigured(name=name, queue=queue, change="created")


def node(name="n1", gpus=8, model="H100-80GB", **fields):
    devices = tuple(
        Device(device=f"{name}-{i}", index=i, model=model, memory_bytes=80 * GB)
        for i in range(gpus)
    )
    fields = {"cpu_milli": 64_000, "memory_bytes": 512 * GB} | fields
    return NodeJoined(
        node=name, host=name, address="10.0.0.1", boot="b", incarnation="i", public_key="",
        devices=devices, **fields,
    )  # fmt: skip


def gang(milli=1000, nodes=1, model="", **fields):
    kinds = (Accelerator(milli=milli, model=model),) if milli else ()
    return Gang(nodes=nodes, accelerators=kinds, **fields)


def pool(name="train", **fields):
    made = Pool(pool=name, label="pool", value=name, **fields)
    return PoolConfigured(name=name, pool=made, change="created")


def requested(job="a-1", project="vision", wants=None, **fields):
    return JobRequested(
        job=job, project=project, name=job.rpartition("-")[0], launch=b"sealed",
        launch_key="k1", gang=wants or gang(), **{"user": "ada", **fields},
    )  # fmt: skip


def cancel(job="a-1", project="vision", **fields):
    return JobCancelRequested(job=job, project=project, user="bob", **fields)


def enter(job="a-1", project="vision", way="exec", what="sh"):
    return JobEnterRequested(job=job, project=project, user="bob", way=way, what=what)


def finished(job="a-1", project="vision", outcome="succeeded"):
    return JobFinished(job=job, project=project, outcome=outcome)


def sweep(job="s-1", tasks=3, **fields):
    trials = tuple({"lr": str(i)} for i in range(tasks))
    return requested(job, trials=trials, kind_of_group="sweep", **fields)


def led(**settings):
    """Admission is led with these settings."""
    return ServiceLed(service="admission", epoch=1, decision_version="v", settings=settings)


def history(*events):
    """A node with eight GPUs and the project `vision`, and then these events."""
    return given(DECIDER, node(), project(), *events)


def decided(history):
    """The one decision of this turn."""
    (draft,) = history.turn()
    return draft.event


def refusal(history):
    """The line that whoever asked reads: the refusal of this turn's one decision, completed."""
    event = decided(history)
    suggestions = Suggestions(names_of, lambda: 0.0)
    return str(suggestions.complete(event.refusal, history.state, project_of(event)))
