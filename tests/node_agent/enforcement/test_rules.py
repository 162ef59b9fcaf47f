"""Which rung holds a worker, what it may hold, and what its user reads: pure rules."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.devices import Sample
from headrace.node_agent.enforcement import Limit, ladder, messages
from headrace.node_agent.enforcement.memory_watch import is_suspicious, offences
from headrace.node_agent.machine import AttemptKey, End

GIB = 2**30
KNOWN = {
    "GPU-0": Device(device="GPU-0", index=0, model="H100-80GB", memory_bytes=80 * GIB),
    "GPU-1": Device(device="GPU-1", index=1, model="H100-80GB", memory_bytes=80 * GIB),
    "MIG-0": Device(
        device="MIG-0", index=2, model="H100-80GB", memory_bytes=10 * GIB, profile="1g.10gb"
    ),
}
A, B = AttemptKey("a", 1, 0), AttemptKey("b", 1, 0)


def shares(*of):
    return [Share(device=device, milli=milli) for device, milli in of]


@pytest.mark.parametrize(
    ("held", "has_mps", "can_watch", "level"),
    [
        ([], True, True, "none"),
        ([("GPU-0", 1000)], True, True, "none"),
        ([("GPU-0", 1000), ("GPU-1", 1000)], True, True, "none"),
        ([("MIG-0", 1000)], False, False, "mig"),
        ([("MIG-0", 1000)], True, True, "mig"),
        ([("GPU-0", 500)], True, True, "mps"),
        ([("GPU-0", 500)], True, False, "mps"),
        ([("GPU-0", 500)], False, True, "watch"),
        ([("GPU-0", 500)], False, False, "none"),
        ([("GPU-0", 500), ("GPU-1", 500)], True, True, "watch"),
        ([("MIG-0", 1000), ("GPU-0", 1000)], True, True, "none"),
    ],
)
def test_the_strictest_rung_that_the_devices_allow_holds_a_worker(held, has_mps, can_watch, level):
    assert ladder.rung(shares(*held), KNOWN, has_mps=has_mps, can_watch=can_watch) == level


def test_a_limit_is_the_share_of_the_memory_and_whole_devices_have_none():
    found = ladder.limits_of(shares(("GPU-0", 250), ("GPU-1", 1000), ("elsewhere", 500)), KNOWN)
    assert found == {"GPU-0": Limit(250, 20 * GIB)}


def test_frameworks_are_asked_to_leave_room_for_what_the_driver_holds():
    caps = ladder.caps_of({"GPU-0": Limit(500, 40 * GIB)}, KNOWN)
    fraction = float(caps["XLA_PYTHON_CLIENT_MEM_FRACTION"])
    assert 0.45 < fraction < 0.5
    assert caps["HEADRACE_GPU_MEMORY_FRACTION"] == caps["XLA_PYTHON_CLIENT_MEM_FRACTION"]
    assert caps["HEADRACE_GPU_MEMORY_BYTES"] == str(40 * GIB)
    assert ladder.caps_of({}, KNOWN) == {}


@given(milli=st.integers(1, 999))
def test_a_cap_is_a_fraction_below_the_share(milli):
    limits = ladder.limits_of(shares(("GPU-0", milli)), KNOWN)
    fraction = float(ladder.caps_of(limits, KNOWN)["XLA_PYTHON_CLIENT_MEM_FRACTION"])
    assert 0 < fraction <= max(0.001, milli / 1000)


HALVES = {A: {"GPU-0": Limit(500, 40 * GIB)}, B: {"GPU-0": Limit(500, 40 * GIB)}}
OWNERS = {1: A, 2: A, 3: B}


def sample(*processes, device="GPU-0"):
    return Sample(device, 0, sum(held for _, held in processes), processes)


def test_the_one_who_holds_more_than_its_share_offends_and_its_neighbour_does_not():
    seen = [sample((1, 30 * GIB), (2, 20 * GIB), (3, 30 * GIB))]
    assert is_suspicious(seen, HALVES)
    ((key, device, held, limit),) = offences(seen, HALVES, OWNERS)
    assert (key, device, held, limit.milli) == (A, "GPU-0", 50 * GIB, 500)


@pytest.mark.parametrize(
    "seen",
    [
        [],
        [sample((1, 40 * GIB), (3, 40 * GIB))],
        [sample((1, 20 * GIB), (2, 20 * GIB))],
        [sample((9, 79 * GIB))],  # whoever that is
        [sample((1, 79 * GIB), device="GPU-1")],  # which it has whole
        [sample((1, 40 * GIB + GIB // 4))],  # rounding
    ],
)
def test_nobody_offends_who_keeps_to_its_share(seen):
    assert offences(seen, HALVES, OWNERS) == []


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3, 9]), st.integers(0, 80 * GIB)), max_size=6),
    st.integers(1, 999),
)
def test_who_offends_was_suspected_and_really_holds_more(processes, milli):
    limits = {key: {"GPU-0": Limit(milli, 80 * GIB * milli // 1000)} for key in (A, B)}
    seen = [sample(*processes)]
    for key, _, held, limit in offences(seen, limits, OWNERS):
        assert is_suspicious(seen, limits)
        assert held == sum(h for pid, h in processes if OWNERS.get(pid) == key)
        assert held > limit.memory_bytes


ENDED = End(reason="stopped", exit_code=137, message=messages.STOPPED, started_at_us=5)
LIMITS = {"GPU-0": Limit(500, 40 * GIB)}


def test_who_was_ended_reads_what_it_held_its_share_its_limit_and_who_ended_it():
    end = messages.overdrawn(ENDED, LIMITS, {"GPU-0": 52 * GIB})
    assert (end.reason, end.exit_code, end.started_at_us) == ("over-share", 137, 5)
    assert end.message == (
        "out of memory: it held 52.0 GiB of GPU-0; its share of 0.5 is 40.0 GiB, "
        "enforced by the agent's watch"
    )


def test_what_it_held_may_be_forgotten_but_not_its_limit():
    end = messages.overdrawn(ENDED, LIMITS, {})
    assert "it held more of GPU-0; its share of 0.5 is 40.0 GiB" in end.message


def test_who_ran_out_by_itself_reads_the_same_beside_its_own_end():
    failed = End(reason="exited", exit_code=1, message="exit code 1")
    end = messages.explained(failed, LIMITS, "mps")
    assert (end.reason, end.exit_code) == ("exited", 1)
    assert end.message == (
        "exit code 1; out of memory on GPU-0: its share of 0.5 is 40.0 GiB, enforced by MPS"
    )
    assert messages.explained(failed, {}, "none") == failed
    assert messages.bereft(failed, []) == failed
    assert "MPS daemon of GPU-0 had died" in messages.bereft(failed, ["GPU-0"]).message


@pytest.mark.parametrize(
    ("output", "is_so"),
    [
        (b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", True),
        (b"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory", True),
        (b"failed call to cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY", True),
        (b"cublasCreate failed with CUBLAS_STATUS_ALLOC_FAILED", True),
        (b"ValueError: too many dimensions", False),
        (b"\xff\xfe\x00", False),
        (b"", False),
    ],
)
def test_output_tells_of_memory_that_could_not_be_had(output, is_so):
    assert messages.says_out_of_memory(output) == is_so


def test_an_end_survives_being_written_down():
    end = messages.overdrawn(ENDED, LIMITS, {})
    assert msgspec.json.decode(msgspec.json.encode(end), type=End) == end
