"""GPUs, there or not, and what a node says of itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest
from tests.node_agent.rig import Node, until

from headrace.bus.agents import Signal
from headrace.node_agent import folders
from headrace.node_agent.devices.choosing import devices_of
from headrace.node_agent.devices.models import model_of
from headrace.node_agent.devices.simulated import SimulatedDevices, uuid_of
from headrace.node_agent.settings import NodeSettings
from headrace.node_agent.supervision.protocol import LAUNCHER_LOG

NEEDED = {"HEADRACE_NODE": "n1", "HEADRACE_NODE_DIR": "/n", "HEADRACE_NATS_URL": "nats://x"}


def test_simulated_devices_are_as_asked_for() -> None:
    devices = SimulatedDevices("simulated:2xA100-40GB", "n1")

    first, second = devices.list()
    assert (first.model, first.kind, first.index, second.index) == ("A100-40GB", "simulated", 0, 1)
    assert abs(first.memory_bytes - 40 * 10**9) * 100 <= 8 * 40 * 10**9
    assert (devices.cpu_milli, devices.memory_bytes) == (24_000, 256 * 10**9)


def test_the_same_node_always_has_the_same_devices() -> None:
    once, again = (SimulatedDevices("simulated:8xH100-80GB", "n1").list() for _ in range(2))
    other = SimulatedDevices("simulated:8xH100-80GB", "n2").list()

    assert once == again
    assert len({device.device for device in (*once, *other)}) == 16
    assert uuid_of("n1", 0).startswith("GPU-")


@pytest.mark.parametrize("spec", ["simulated", "simulated:xH100-80GB", "simulated:9999xH100-80GB"])
def test_a_specification_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="is not like simulated:8xH100-80GB"):
        SimulatedDevices(spec, "n1")


@pytest.mark.parametrize(
    ("name", "mebibytes", "model"),
    [
        ("NVIDIA H100 80GB HBM3", 81_559, "H100-80GB"),
        ("NVIDIA A100-SXM4-40GB", 40_960, "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", 81_920, "A100-80GB"),
        ("NVIDIA H200", 143_771, "H200-141GB"),
        ("NVIDIA B200", 183_359, "B200-180GB"),
        ("NVIDIA GH200 480GB", 97_871, "GH200-96GB"),
        ("NVIDIA L4", 23_034, "L4-24GB"),
        ("NVIDIA L40S", 46_068, "L40S-48GB"),
        ("Tesla T4", 15_360, "T4-16GB"),
        ("Tesla V100-SXM2-32GB", 32_768, "V100-32GB"),
        ("NVIDIA GeForce RTX 4090", 24_564, "RTX4090-24GB"),
    ],
)
def test_a_drivers_name_becomes_the_model_of_job_files(
    name: str, mebibytes: int, model: str
) -> None:
    assert model_of(name, mebibytes * 2**20) == model


def test_a_node_without_devices_has_its_cores(tmp_path: Path) -> None:
    devices = devices_of("none", "n1", tmp_path)

    assert devices.cpu_milli >= 1000
    assert devices.memory_bytes > 0
    assert (devices.list(), devices.sample({}), devices.watch()) == ((), (), ())


async def test_a_heartbeat_says_how_busy_each_device_is(node: Node) -> None:
    key = await node.placement.want("job-1", "sleep", "1000", gpus=1)
    await node.placement.started(key)
    before = len(node.placement.signals)

    await until(lambda: len(node.placement.signals) > before, "a heartbeat")

    signal = msgspec.json.decode(node.placement.signals[-1], type=Signal)
    assert (signal.node, signal.incarnation, signal.running) == ("n1", "journal-1", 1)
    assert [busy for _, busy, _ in signal.samples] == [1000, *[0] * 7]


async def test_a_node_says_what_it_has(node: Node) -> None:
    said = node.placement.node

    assert said is not None
    assert (said.boot, said.incarnation) == (node.boot, "journal-1")
    assert len(said.devices) == 8


def test_settings_come_from_the_environment() -> None:
    more = {"HEADRACE_NODE_PORTS": "21000-21009", "HEADRACE_NODE_LABELS": "site=berlin, rack=r1"}

    settings = NodeSettings.read({**NEEDED, **more})

    assert settings.ports == (21000, 21009)
    assert settings.labels == {"rack": "r1", "site": "berlin"}
    assert (settings.gpus, settings.address) == ("auto", "")
    assert (settings.kept, settings.output_bytes_max) == (folders.KEPT, 10**9)


def test_what_is_kept_is_set() -> None:
    more = {
        "HEADRACE_NODE_KEPT_ATTEMPTS": "10",
        "HEADRACE_NODE_KEPT_DAYS": "2",
        "HEADRACE_NODE_OUTPUT_MB": "5",
    }

    settings = NodeSettings.read({**NEEDED, **more})

    assert (settings.kept.attempts, settings.kept.for_s) == (10, 2 * 86_400)
    assert settings.output_bytes_max == 5_000_000


def ended_ago(node_dir: Path, *ages_s: int) -> list[str]:
    """The folders of attempts that ended so long ago."""
    for number, age_s in enumerate(ages_s):
        folder = node_dir / "attempts" / f"a{number}.1.0"
        folder.mkdir(parents=True)
        (folder / "exit.json").touch()
        os.utime(folder / "exit.json", (time.time() - age_s,) * 2)
    return left(node_dir)


def left(node_dir: Path) -> list[str]:
    return sorted(path.name for path in (node_dir / "attempts").iterdir())


@pytest.mark.parametrize(
    ("kept", "stay"),
    [
        (folders.Kept(attempts=2), 2),
        (folders.Kept(for_s=5_000), 2),
        (folders.Kept(disk_permille=0), 1),  # what ended within the hour stays
        (folders.Kept(disk_permille=1000), 4),
    ],
)
def test_the_oldest_ended_attempts_go_first(tmp_path: Path, kept: folders.Kept, stay: int) -> None:
    names = ended_ago(tmp_path, 60, 4_000, 8_000, 86_400)
    (tmp_path / "attempts" / "running.1.0").mkdir()

    assert folders.clean(tmp_path, frozenset(), kept) == 4 - stay

    assert left(tmp_path) == [*names[:stay], "running.1.0"]
    assert folders.clean(tmp_path, frozenset(), kept) == 0


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_long_log_of_the_launcher_begins_anew_under_who_writes_it(
    tmp_path: Path, size: int
) -> None:
    (tmp_path / "attempts").mkdir()
    with (tmp_path / LAUNCHER_LOG).open("ab", buffering=0) as log:
        log.write(bytes(size))
        log.write(bytes(100_000))
        folders.clean(tmp_path, frozenset())
        log.write(b"ERROR")
        assert (tmp_path / LAUNCHER_LOG).stat().st_size == (5 if size > 10 else size + 100_005)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"HEADRACE_NODE_DIR": ""}, "HEADRACE_NODE_DIR must be set"),
        ({"HEADRACE_NODE": "N.1"}, "'N.1' must be 1 to 63 of"),
        ({"HEADRACE_NODE_PORTS": "5"}, "HEADRACE_NODE_PORTS = '5' is not like"),
        ({"HEADRACE_NODE_PORTS": "300-200"}, "HEADRACE_NODE_PORTS = '300-200' is not like"),
        ({"HEADRACE_NODE_KEPT_DAYS": "0"}, "HEADRACE_NODE_KEPT_DAYS = '0' is not a number from 1"),
        ({"HEADRACE_NODE_LABELS": "site"}, "HEADRACE_NODE_LABELS = 'site' is not like"),
    ],
)
def test_a_setting_that_is_wrong_ends_with_one_line(changes: dict[str, str], line: str) -> None:
    with pytest.raises(SystemExit, match=line):
        NodeSettings.read({**NEEDED, **changes})
