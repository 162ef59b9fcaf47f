"""Any history, cut anywhere: the snapshot keeps everything and decides the same."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.admission.decide import DECIDER
from headrace.decider.testing import History
from headrace.events.access import (
    ProjectEraseRequested,
    ProjectKeysDropped,
    PublisherRequested,
    SecretSetRequested,
)
from headrace.events.jobs import JobAdmitted, JobCancelling, JobCancelRefused, JobRefused
from headrace.events.nodes import NodeChanged
from headrace.events.platform import ServiceLed

from .facts import cancel, finished, gang, node, project, requested, sweep

NAMES = st.sampled_from(["vision", "ads"])
JOBS = st.sampled_from(["a-1", "a-2", "s-1", "s-1/0", "s-1/1", "s-2", "x-9"])
EVENTS = st.one_of(
    st.builds(project, NAMES, limit_milli=st.sampled_from([-1, 2000])),
    st.builds(node, st.sampled_from(["n1", "n2"]), gpus=st.integers(0, 2)),
    st.builds(NodeChanged, node=st.just("n1"), change=st.sampled_from(["cordon", "uncordon"])),
    st.builds(
        requested, st.sampled_from(["a-1", "a-2", "a-3"]), NAMES,
        wants=st.builds(gang, st.sampled_from([0, 500, 4000]), nodes=st.integers(1, 2)),
        secrets=st.sampled_from([(), ("A",)]), preemptible=st.booleans(),
    ),
    st.builds(sweep, st.sampled_from(["s-1", "s-2"]), st.integers(1, 5)),
    st.builds(cancel, JOBS, NAMES),
    st.builds(finished, JOBS, NAMES),
    st.builds(JobCancelling, job=JOBS, project=NAMES),
    st.builds(SecretSetRequested, project=NAMES, name=st.just("A"), version=st.just("v")),
    st.builds(
        PublisherRequested, project=NAMES, name=st.just("p"), public_key=st.sampled_from("UV")
    ),
    st.builds(ProjectEraseRequested, project=NAMES),
    st.builds(ProjectKeysDropped, project=NAMES, erased_at=st.integers(1, 30)),
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.lists(EVENTS, max_size=4), st.booleans()), max_size=10))
def test_a_cut_anywhere_changes_no_decision(rounds):
    led = ServiceLed(service="admission", epoch=1, decision_version="v", settings={"drafts_max": 3})
    whole, cut = History(DECIDER).given(led), History(DECIDER).given(led)
    for events, cuts in rounds:
        whole.given(*events)
        cut.given(*events)
        if cuts:
            cut.restored()
        before = msgspec.json.encode(whole.state)
        assert whole.decides() == cut.decides()
        assert msgspec.json.encode(whole.state) == before
        assert whole.turn() == cut.turn()
    whole.settled()
    answers_each_request_once(whole)


def answers_each_request_once(history):
    """Every request is answered by exactly one decision, apart from what follows from it."""
    answered = {}
    for entry in history.entries:
        event = entry.event
        if not entry.header.causation or getattr(event, "group", ""):
            continue
        if isinstance(event, JobAdmitted | JobRefused | JobCancelRefused):
            assert entry.header.causation not in answered
            answered[entry.header.causation] = event
    assert history.state.pending == {}
    assert sum(history.state.live_of.values()) == len(history.state.live)
