"""What NVML alone tells: slices, links, memory rows, recoveries, and its codes one by one."""

import pytest
from tests.node_agent.devices.fake_nvml import FakeNvml, Gpu, Slice

from headrace.events.gangs import Share
from headrace.node_agent.devices import DRAIN, IGNORE, RESTART, Trouble, xid
from headrace.node_agent.devices.nvml import NvmlDevices

GIB = 2**30


def slices():
    return [Slice("MIG-a", "1g.10gb", 9 * GIB, 7), Slice("MIG-b", "3g.40gb", 39 * GIB, 2)]


def test_a_divided_gpu_is_its_slices():
    whole, divided = Gpu("GPU-0"), Gpu("GPU-1", slices=slices())

    devices = NvmlDevices(FakeNvml(whole, divided)).list()

    assert [(d.device, d.profile, d.parent, d.index) for d in devices] == [
        ("GPU-0", "", "", 0), ("MIG-a", "1g.10gb", "GPU-1", 1), ("MIG-b", "3g.40gb", "GPU-1", 1),
    ]  # fmt: skip
    assert [d.memory_bytes // GIB for d in devices] == [79, 9, 39]
    assert {d.model for d in devices} == {"H100-80GB"}


def test_a_gpu_that_is_divided_anew_has_other_slices():
    gpu = Gpu("GPU-0", slices=slices())
    devices = NvmlDevices(FakeNvml(gpu))
    devices.list()
    gpu.slices = gpu.slices[1:]
    assert [d.device for d in devices.list()] == ["MIG-b"]
    gpu.slices = None
    assert [d.device for d in devices.list()] == ["GPU-0"]


def test_how_busy_a_slice_is_is_unknown_and_not_0():
    devices = NvmlDevices(FakeNvml(Gpu("GPU-0", slices=slices())))
    devices.list()
    assert [(s.device, s.busy_milli) for s in devices.sample({})] == [
        ("MIG-a", None),
        ("MIG-b", None),
    ]


def test_what_happens_to_a_slice_is_its_own_and_what_happens_to_the_gpu_is_all_of_theirs():
    gpu = Gpu("GPU-0", slices=slices())
    devices = NvmlDevices(FakeNvml(gpu))
    devices.list()
    gpu.xid(94, instance=2)
    assert [t.device for t in devices.watch()] == ["MIG-b"]
    gpu.xid(79)
    assert [t.device for t in devices.watch()] == ["MIG-a", "MIG-b"]


def test_gpus_that_nvlink_joins_form_islands():
    pairs = [("GPU-0", "GPU-2"), ("GPU-2", "GPU-3"), ("GPU-4", "GPU-5")]
    gpus = [Gpu(f"GPU-{n}") for n in range(7)]
    for one, other in pairs:
        next(gpu for gpu in gpus if gpu.uuid == one).joined.add(other)

    islands = [d.island for d in NvmlDevices(FakeNvml(*gpus)).list()]

    assert islands[0] == islands[2] == islands[3] != ""
    assert islands[4] == islands[5] not in ("", islands[0])
    assert (islands[1], islands[6]) == ("", "")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"remap_failed": True}, "a faulty memory row could not be set aside"),
        ({"recovery": 1}, "its driver asks for a reset"),
        ({"recovery": 2}, "its driver asks for a restart of the machine"),
        ({"lost": True}, "the driver does not answer for it: GPU is lost"),
        ({"recovery": 0}, ""),
    ],
)
def test_a_gpu_is_faulty_as_long_as_its_driver_says_so(changes, fault):
    gpu = Gpu("GPU-0")
    devices = NvmlDevices(FakeNvml(gpu))
    devices.list()
    for name, value in changes.items():
        setattr(gpu, name, value)
    (device,) = devices.list()
    assert (device.healthy, device.fault) == (not fault, fault)
    for name in changes:
        setattr(gpu, name, 0)
    assert devices.list()[0].healthy


def test_an_uncorrectable_memory_error_is_told_as_its_code():
    gpu = Gpu("GPU-0")
    devices = NvmlDevices(FakeNvml(gpu))
    devices.list()
    gpu.ecc()
    assert devices.watch() == (Trouble("GPU-0", 48, DRAIN, xid.text_of(48)),)


def test_a_gpu_that_tells_of_no_events_is_used_without():
    gpu = Gpu("GPU-0", supports=0)
    devices = NvmlDevices(FakeNvml(gpu))
    assert [d.healthy for d in devices.list()] == [True]
    gpu.xid(79)
    assert devices.watch() == ()


def test_a_gpu_that_was_never_answered_for_is_not_invented():
    devices = NvmlDevices(FakeNvml(Gpu("GPU-0", lost=True), Gpu("GPU-1")))
    assert [d.device for d in devices.list()] == ["GPU-1"]
    assert devices.watch() == ()


def test_a_process_whose_memory_is_not_known_is_left_out():
    devices = NvmlDevices(FakeNvml(Gpu("GPU-0", processes=[(7, None), (8, GIB)])))
    devices.list()
    assert devices.sample({})[0].processes == ((8, GIB),)


def test_who_does_not_tell_of_processes_cannot_be_watched():
    telling, silent = Gpu("GPU-0"), Gpu("GPU-1", processes=None)
    for gpus, can in (([telling], True), ([telling, silent], False), ([], False)):
        devices = NvmlDevices(FakeNvml(*gpus))
        devices.list()
        assert devices.can_watch is can


def test_devices_are_shown_by_uuid():
    shown = NvmlDevices(FakeNvml(Gpu("GPU-0"))).bind([Share(device="MIG-a")])
    assert shown == {"CUDA_VISIBLE_DEVICES": "MIG-a", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


CATALOGUE = {
    # code: (the catalogue's immediate resolution, what that comes to here)
    **dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 9, 10, 12), ("contact support", DRAIN)),
    **dict.fromkeys((*range(15, 25), *range(26, 31)), ("contact support", DRAIN)),
    **dict.fromkeys((33, 34, 35, 36, 42, 47), ("contact support", DRAIN)),
    **dict.fromkeys((*range(49, 54), *range(55, 60), 61, 65, 73), ("contact support", DRAIN)),
    **dict.fromkeys((81, 87, 90, 91, 108), ("contact support", DRAIN)),
    **dict.fromkeys((*range(111, 119), *range(122, 126), 138, 142), ("contact support", DRAIN)),
    **dict.fromkeys((11, 13, 25, 31, 32, 45, 69), ("the program first", IGNORE)),
    **dict.fromkeys((8, 39, 40, 41, 60, 68, 70, 71, 72), ("restart the application", RESTART)),
    **dict.fromkeys((75, 76, 77, 80, *range(82, 87)), ("restart the application", RESTART)),
    **dict.fromkeys((88, 89, 94, *range(96, 106)), ("restart the application", RESTART)),
    **dict.fromkeys((*range(126, 136), 139), ("restart the application", RESTART)),
    **dict.fromkeys((14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107), ("ignore", IGNORE)),
    **dict.fromkeys((121, 137, 141, 152, 153, 157, 161), ("ignore", IGNORE)),
    **dict.fromkeys((46, 62, 64, 95, 109, 110, 119, 120, 136, 140), ("reset the GPU", DRAIN)),
    **dict.fromkeys((143, 155, 156, 158, 162), ("reset the GPU", DRAIN)),
    **dict.fromkeys((74, *range(144, 151)), ("check the links", DRAIN)),
    48: ("a workflow that ends in a reset", DRAIN),
    54: ("check the cables", DRAIN),
    78: ("update the software", DRAIN),
    79: ("restart the machine", DRAIN),
    151: ("restart the virtual machine", DRAIN),
    154: ("follow the other code", IGNORE),
    159: ("check the program's memory", RESTART),
    160: ("restart the machine", DRAIN),
}


def test_the_table_has_every_code_of_the_catalogue():
    assert sorted(CATALOGUE) == sorted(xid.known())


@pytest.mark.parametrize("code", [*sorted(CATALOGUE), 9_999])
def test_each_code_that_the_driver_tells_has_its_action(code):
    gpu = Gpu("GPU-0")
    devices = NvmlDevices(FakeNvml(gpu))
    devices.list()
    gpu.xid(code)

    (trouble,) = devices.watch()

    _, action = CATALOGUE.get(code, ("it does not have it", IGNORE))
    assert (trouble.device, trouble.code, trouble.action) == ("GPU-0", code, action)
    assert trouble.text.startswith(f"XID {code}: ")
