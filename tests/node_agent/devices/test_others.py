"""What the other drivers alone have: links of AMD's, files, announcements, and which is chosen."""

import os

import pytest
from tests.node_agent.devices.cases import announced
from tests.node_agent.devices.fake_amdsmi import FakeAmdSmi, Gpu

from headrace.node_agent.devices import static
from headrace.node_agent.devices.amd import AmdDevices
from headrace.node_agent.devices.choosing import devices_of
from headrace.node_agent.devices.simulated import SimulatedDevices, uuid_of

TPU = 'model = "TPUv4"\ncount = 2\nmemory = "32GB"\nenvironment = "TPU_VISIBLE_CHIPS"\n'


def test_amd_gpus_are_named_as_the_runtime_names_them():
    gpus = [Gpu(serial="d2f1a9c03b7e4455", busy="N/A"), Gpu(serial="d2f1a9c03b7e4456")]
    first, second = AmdDevices(FakeAmdSmi(*gpus)).list()
    assert (first.device, first.model, first.kind, first.vendor) == (
        "GPU-d2f1a9c03b7e4455", "MI300X-192GB", "amd", "amd",
    )  # fmt: skip
    assert first.island == second.island != ""


def test_amd_gpus_that_nothing_joins_form_no_island():
    gpus = [Gpu(serial="a"), Gpu(serial="b")]
    assert {d.island for d in AmdDevices(FakeAmdSmi(*gpus, xgmi=False)).list()} == {""}


def test_a_count_that_amds_library_cannot_tell_is_no_trouble():
    gpu = Gpu(serial="a", uncorrected="N/A")
    devices = AmdDevices(FakeAmdSmi(gpu))
    devices.list()
    assert devices.watch() == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("count = [", "devices.toml: "),
        (TPU + "colour = 3\n", "unknown field `colour`"),
        (TPU.replace('"32GB"', '"much"'), "memory = 'much' is not like 32GB"),
        (TPU.replace("TPU_V", "tpu v"), "environment = .* is not like TPU_VISIBLE_CHIPS"),
        (TPU.replace("TPUv4", "../4"), "model = '../4' is not like TPUv4"),
        (TPU.replace("= 2", "= -2"), "count = -2 is not between 0 and 1024"),
        ("model = 3\n", "Expected `str`"),
    ],
)
def test_a_description_that_is_none_is_refused_in_one_line(tmp_path, text, line):
    path = tmp_path / "devices.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=line) as raised:
        static.read(str(path))
    assert "\n" not in str(raised.value)


def test_a_description_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="cannot be read from /nowhere/x: No such file"):
        static.read("/nowhere/x")


def test_described_devices_are_found_by_their_numbers(tmp_path):
    path = tmp_path / "tpu.toml"
    path.write_text(TPU)
    devices = devices_of(f"static:{path}", "n1", tmp_path)
    first, second = devices.list()
    assert (first.model, first.kind, second.device) == ("TPUv4-32GB", "static", "static-n1-1")


def test_a_machine_without_a_driver_is_a_node_without_devices(tmp_path):
    if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"):
        pytest.skip("this machine has a driver")
    assert devices_of("auto", "n1", tmp_path).list() == ()


@pytest.mark.parametrize("line", ["", "GPU-x", "GPU-x seventy", "GPU-x 7 9", "\xff\xfe 3 x"])
def test_what_announces_no_trouble_is_passed_over(tmp_path, line):
    devices = SimulatedDevices("simulated:1xH100-80GB", "n1", tmp_path)
    (tmp_path / "simulated/xids").write_text(f"{line}\n{uuid_of('n1', 0)} 94\n{uuid_of('n1', 0)} 9")
    assert [trouble.code for trouble in devices.watch()] == [94]
    with (tmp_path / "simulated/xids").open("a") as file:
        file.write("5\n")
    assert [trouble.code for trouble in devices.watch()] == [95]


@pytest.mark.parametrize("said", ["", "much", "-1x", "9" * 30])
def test_what_a_process_announces_badly_is_passed_over(tmp_path, said):
    devices = SimulatedDevices("simulated:1xH100-80GB", "n1", tmp_path)
    (tmp_path / "simulated" / announced(uuid_of("n1", 0), os.getpid())).write_text(said)
    held = [held for _, held in devices.sample({})[0].processes]
    assert held in ([], [int("9" * 20)])


def test_what_another_process_of_its_number_held_is_held_no_more(tmp_path):
    devices = SimulatedDevices("simulated:1xH100-80GB", "n1", tmp_path)
    file = tmp_path / "simulated" / announced(uuid_of("n1", 0), os.getpid())
    file.write_text("5")
    assert devices.sample({})[0].processes == ((os.getpid(), 5),)
    os.utime(file, (0, 0))
    assert devices.sample({})[0].processes == ()


def test_what_a_process_held_that_has_gone_is_held_no_more(tmp_path):
    devices = SimulatedDevices("simulated:1xH100-80GB", "n1", tmp_path)
    (tmp_path / "simulated" / announced(uuid_of("n1", 0), 4_194_399)).write_text("5")
    assert devices.sample({})[0].processes == ()
