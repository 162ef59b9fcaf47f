"""What every driver does alike."""

import os
import re

import pytest
from tests.node_agent.devices.cases import CASES, Case, nothing

from headrace.events.gangs import Share


@pytest.fixture(params=list(CASES))
def case(request, tmp_path) -> Case:
    found = CASES[request.param](tmp_path)
    found.devices.list()
    found.devices.watch()  # what was before
    return found


@pytest.fixture
def telling(case) -> Case:
    """A driver that tells of faults."""
    if case.fail is nothing:
        assert (case.devices.can_watch, case.devices.watch()) == (False, ())
        pytest.skip("what a file describes tells of nothing")
    return case


def test_every_device_is_told_once_and_always_alike(case):
    found = case.devices.list()

    assert [device.index for device in found] == [0, 1, 2, 3]
    assert len({device.device for device in found}) == 4
    assert all(device.healthy and not device.fault for device in found)
    assert all(re.fullmatch(r"[A-Za-z0-9]+-[0-9]+GB", device.model) for device in found)
    assert all(device.memory_bytes > 2**30 for device in found)
    assert case.devices.list() == found
    assert case.devices.cpu_milli >= 1000
    assert case.devices.memory_bytes > 0


def test_a_sample_says_how_each_device_is_used(case):
    found = case.devices.list()
    case.hold(1, os.getpid(), 3 * 2**30)

    samples = case.devices.sample({found[1].device: 500})

    assert [sample.device for sample in samples] == [device.device for device in found]
    assert all(0 <= sample.busy_milli <= 1000 for sample in samples)
    assert [sample.processes for sample in samples if sample.device != found[1].device] == [()] * 3
    if case.devices.can_watch:
        assert samples[1].processes == ((os.getpid(), 3 * 2**30),)
        assert samples[1].used_bytes == 3 * 2**30


def test_a_process_sees_its_devices_in_order_and_no_others(case):
    found = case.devices.list()
    shares = [Share(device=found[n].device) for n in (2, 0)]

    shown = case.devices.bind(shares)[case.variable].split(",")
    alone = [case.devices.bind([share])[case.variable] for share in shares]

    assert shown == alone
    assert len(set(shown)) == 2
    assert case.devices.bind([])[case.variable] == ""


def test_each_device_has_the_file_that_its_users_open(case):
    found = case.devices.list()

    files = case.devices.files()

    assert files == ({d.device: case.file.format(d.index) for d in found} if case.file else {})


def test_a_device_that_fails_stays_listed_as_faulty_with_the_reason_until_it_is_mended(telling):
    before = telling.devices.list()
    telling.fail(2)

    found = telling.devices.list()
    assert [device.device for device in found] == [device.device for device in before]
    assert [device.healthy for device in found] == [True, True, False, True]
    assert found[2].fault
    assert (found[2].model, found[2].memory_bytes) == (before[2].model, before[2].memory_bytes)
    samples = telling.devices.sample({})
    assert {device.device for device in before[:2]} <= {sample.device for sample in samples}

    telling.mend(2)
    assert telling.devices.list() == before


def test_what_happens_to_a_device_is_told_once(telling):
    name = telling.devices.list()[3].device
    telling.happen(3)

    (trouble,) = telling.devices.watch()
    assert (trouble.device, trouble.action) == (name, "drain")
    assert trouble.text
    assert telling.devices.watch() == ()


def test_a_device_that_has_failed_keeps_nobody_from_watching_the_others(telling):
    telling.fail(0)
    telling.happen(1)
    telling.devices.list()

    (trouble,) = telling.devices.watch()
    assert trouble.device == telling.devices.list()[1].device
