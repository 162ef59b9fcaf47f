"""Reads what the host says of its devices: CDI specifications, and device files.

Rule: it looks and changes nothing; what cannot be read is not there. See the Container Device
Interface specification: a file has a `kind` (`nvidia.com/gpu`) and `devices` with names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from glob import glob
from pathlib import Path
from typing import Any

import yaml

SPEC_BYTES_MAX = 4_194_304
SPECS_MAX = 64  # in one folder
DEVICE_FILES = {
    "nvidia": ("/dev/nvidiactl", "/dev/nvidia-uvm*", "/dev/nvidia-caps/*"),
    "amd": ("/dev/kfd",),
    "rdma": ("/dev/infiniband/*",),
}


def names_in(folders: Iterable[str]) -> frozenset[str]:
    """The qualified names (`nvidia.com/gpu=0`) of every device that is specified there."""
    names: set[str] = set()
    for folder in folders:
        files = [path for path in sorted(Path(folder).glob("*")) if _is_spec(path)]
        for path in files[:SPECS_MAX]:
            with contextlib.suppress(OSError, ValueError, yaml.YAMLError):
                names.update(names_of(yaml.safe_load(path.read_bytes())))
    return frozenset(names)


def names_of(spec: Any) -> list[str]:
    """The same of one specification."""
    if not isinstance(spec, dict) or not isinstance(spec.get("devices"), list):
        return []
    named = (device for device in spec["devices"] if isinstance(device, dict))
    return [f"{spec.get('kind')}={device.get('name')}" for device in named]


def device_files() -> dict[str, tuple[str, ...]]:
    """The files that this host's GPUs of a kind share, and those of its RDMA adapters."""
    return {
        kind: tuple(sorted({path for pattern in patterns for path in glob(pattern)}))
        for kind, patterns in DEVICE_FILES.items()
    }


def _is_spec(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.suffix in (".json", ".yaml") and path.stat().st_size <= SPEC_BYTES_MAX
    return False
