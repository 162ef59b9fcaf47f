"""The four drivers over hardware that does what a test wants."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.node_agent.devices import fake_amdsmi, fake_nvml

from headrace.node_agent.devices import Devices, static
from headrace.node_agent.devices.amd import AmdDevices
from headrace.node_agent.devices.nvml import NvmlDevices
from headrace.node_agent.devices.simulated import SimulatedDevices, uuid_of

Do = Callable[..., None]


def nothing(*_of: object) -> None:
    """This hardware cannot tell."""


@dataclass
class Case:
    """Four devices: `fail` and `mend` one, have something `happen` to it, `hold` bytes of it. What
    hardware cannot do is `nothing`.
    """

    devices: Devices
    variable: str
    file: str = ""
    fail: Do = nothing
    mend: Do = nothing
    happen: Do = nothing
    hold: Do = nothing


def nvml(_folder: Path) -> Case:
    gpus = [fake_nvml.Gpu(uuid=f"GPU-{n:08x}") for n in range(4)]

    def hold(n: int, pid: int, held: int) -> None:
        gpus[n].processes, gpus[n].used = [(pid, held)], held

    return Case(
        NvmlDevices(fake_nvml.FakeNvml(*gpus)),
        "CUDA_VISIBLE_DEVICES",
        "/dev/nvidia{}",
        fail=lambda n: setattr(gpus[n], "lost", True),
        mend=lambda n: setattr(gpus[n], "lost", False),
        happen=lambda n: gpus[n].xid(79),
        hold=hold,
    )


def amd(_folder: Path) -> Case:
    gpus = [fake_amdsmi.Gpu(serial=f"{n:016x}") for n in range(4)]

    def hold(n: int, pid: int, held: int) -> None:
        gpus[n].processes, gpus[n].used_mib = [(pid, held)], held // 2**20

    def happen(n: int) -> None:
        gpus[n].uncorrected = int(gpus[n].uncorrected) + 1

    return Case(
        AmdDevices(fake_amdsmi.FakeAmdSmi(*gpus)),
        "ROCR_VISIBLE_DEVICES",
        "/dev/dri/renderD12{}",
        fail=lambda n: setattr(gpus[n], "lost", True),
        mend=lambda n: setattr(gpus[n], "lost", False),
        happen=happen,
        hold=hold,
    )


def announced(device: str, pid: int) -> str:
    """The name under which a process of our PID namespace says what it holds."""
    return f"{device}.{os.readlink('/proc/self/ns/pid')}.{pid}"


def simulated(node_dir: Path) -> Case:
    folder = node_dir / "simulated"

    def happen(n: int) -> None:
        with (folder / "xids").open("a") as file:
            file.write(f"{uuid_of('n1', n)} 79\n")

    def hold(n: int, pid: int, held: int) -> None:
        (folder / announced(uuid_of("n1", n), pid)).write_text(str(held))

    return Case(
        SimulatedDevices("simulated:4xH100-80GB", "n1", node_dir),
        "CUDA_VISIBLE_DEVICES",
        fail=lambda n: (folder / f"{uuid_of('n1', n)}.fault").write_text("it smokes\n"),
        mend=lambda n: (folder / f"{uuid_of('n1', n)}.fault").unlink(),
        happen=happen,
        hold=hold,
    )


def described(folder: Path) -> Case:
    path = folder / "devices.toml"
    path.write_text(
        'model = "TPUv4"\ncount = 4\nmemory = "32GB"\nenvironment = "TPU_VISIBLE_CHIPS"\n'
        'file = "/dev/accel{}"\n'
    )
    devices = static.StaticDevices(static.read(str(path)), "n1")
    return Case(devices, "TPU_VISIBLE_CHIPS", "/dev/accel{}")


CASES = {"nvml": nvml, "amd": amd, "simulated": simulated, "static": described}
