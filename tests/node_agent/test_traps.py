"""What a job writes for the node to read may be a trap: a link to what root reads, or a pipe."""

import os

import pytest
from tests.node_agent.devices.cases import announced

from headrace.node_agent import worker_reports
from headrace.node_agent.devices.simulated import SimulatedDevices, uuid_of

GPU = uuid_of("n1", 0)
SAID = '{"values": {"step": "7"}}'


@pytest.fixture
def simulated(tmp_path):
    devices = SimulatedDevices("simulated:2xH100-80GB", "n1", tmp_path)
    return devices, tmp_path / "simulated"


def test_a_link_in_the_place_of_a_report_is_not_read(tmp_path):
    (tmp_path / "reports").mkdir()
    (tmp_path / "own.json").write_text(SAID)
    (tmp_path / "reports" / "0.json").symlink_to(tmp_path / "own.json")
    os.mkfifo(tmp_path / "reports" / "1.json")
    assert worker_reports.values_of(tmp_path) == {}
    (tmp_path / "reports" / "2.json").write_text(SAID)
    assert worker_reports.values_of(tmp_path) == {"step": "7"}


def test_a_device_that_is_said_to_be_faulty_by_a_link_repeats_nothing_of_the_file(
    simulated, tmp_path
):
    devices, folder = simulated
    (tmp_path / "secret").write_text("only root reads this")
    (folder / f"{GPU}.fault").symlink_to(tmp_path / "secret")
    assert devices.list()[0].fault == "it is said to be faulty"


def test_nobody_waits_for_a_pipe_among_what_is_announced(simulated):
    devices, folder = simulated
    for name in (announced(GPU, os.getpid()), f"{GPU}.fault", "xids"):
        os.mkfifo(folder / name)
    assert [sample.processes for sample in devices.sample({})] == [(), ()]
    assert devices.list()[0].fault == "it is said to be faulty"
    assert devices.watch() == ()
