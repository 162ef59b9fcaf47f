"""The checks of NVIDIA GPUs: kernel driver, its library, MIG mode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.doctor import Check, failed, ok, warning

VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers
CHECKPOINT_DRIVER = 570  # the first whose state a paused process leaves in host memory

_VERSION = re.compile(r"NVRM version:.*?\s(\d+)\.(\d+(?:\.\d+)?)\s")


def check_gpus(root: Path, nvml: Any) -> Iterator[Check]:
    """All of them. `root` is `/`, or a stand-in; `nvml` the library's module, None without it."""
    cards = _cards(root)
    driver = _driver_version(root)
    if not cards and driver is None:
        yield ok("driver", "no NVIDIA GPU: a node for CPU jobs")
        return
    yield _driver(cards, driver)
    if nvml is None:
        fix = "pip install 'headrace[agent]', which brings nvidia-ml-py"
        yield failed("nvml", "the library's module is not installed", fix)
        return
    try:
        nvml.nvmlInit()
        count = int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError as error:
        fix = "make nvidia-smi work: install the driver's libraries of the same version, or reboot"
        yield failed("nvml", str(error), fix)
        return
    yield _counted(cards, count)
    yield _mig(nvml, count)


def _driver(cards: int, driver: tuple[int, str] | None) -> Check:
    if driver is None:
        fix = "install the NVIDIA driver 570 or later, then reboot (modprobe nvidia)"
        return failed("driver", f"{cards} NVIDIA GPUs and no loaded driver", fix)
    major, text = driver
    if major < CHECKPOINT_DRIVER:
        fix = f"install the driver {CHECKPOINT_DRIVER} or later, to pause jobs in host memory"
        return warning("driver", text, fix)
    return ok("driver", text)


def _counted(cards: int, count: int) -> Check:
    if count < cards:
        fix = "look for Xid lines in dmesg; reset or reseat the GPU that is missing"
        return failed("nvml", f"answers for {count} of {cards} GPUs", fix)
    return ok("nvml", f"answers for {count} GPUs")


def _mig(nvml: Any, count: int) -> Check:
    enabled, pending, empty = [], [], []
    for index in range(count):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        try:
            now, after = nvml.nvmlDeviceGetMigMode(handle)
        except nvml.NVMLError:
            continue  # this model has no MIG
        enabled += [index] if now else []
        pending += [index] if now != after else []
        empty += [index] if now and not _slices(nvml, handle) else []
    if pending:
        fix = f"nvidia-smi --gpu-reset -i {_list(pending)} (or reboot): the change waits for it"
        return failed("mig", f"a change of mode waits on GPU {_list(pending)}", fix)
    if empty:
        fix = f"nvidia-smi mig -i {_list(empty)} -cgi 1g.10gb -C, or -mig 0 for whole GPUs"
        return failed("mig", f"GPU {_list(empty)} is in MIG mode and has no instance", fix)
    return ok("mig", f"on GPU {_list(enabled)}" if enabled else "off")


def _slices(nvml: Any, handle: Any) -> int:
    found = 0
    for index in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
        try:
            nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError:
            continue
        found += 1
    return found


def _cards(root: Path) -> int:
    """How many NVIDIA GPUs are on the bus, with or without a driver."""
    found = 0
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor, kind = _text(device / "vendor"), _text(device / "class")
        found += vendor == VENDOR and kind[:6] in DISPLAY_CLASSES
    return found


def _driver_version(root: Path) -> tuple[int, str] | None:
    found = _VERSION.search(_text(root / "proc/driver/nvidia/version") + " ")
    return (int(found[1]), f"{found[1]}.{found[2]}") if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _list(numbers: list[int]) -> str:
    return ",".join(str(number) for number in numbers)
