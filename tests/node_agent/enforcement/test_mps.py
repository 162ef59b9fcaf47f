"""One MPS daemon per shared GPU, for as long as somebody shares it."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
from tests.node_agent.enforcement.fake_mps import FakeMps
from tests.node_agent.rig import until

from headrace.bus.agents import Assignment
from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent.devices.simulated import SimulatedDevices
from headrace.node_agent.enforcement import mps as module
from headrace.node_agent.enforcement.enforcer import Enforcer
from headrace.node_agent.enforcement.mps import Mps
from headrace.node_agent.machine import AttemptKey, End, Seen

GPU = "GPU-0"
OWN, OTHER = os.geteuid(), 4711


@pytest.fixture
def fake(tmp_path):
    found = FakeMps(tmp_path)
    yield found
    found.kill()


@pytest.fixture
def mps(fake, monkeypatch):
    monkeypatch.setattr(module, "LINGER_S", 0.0)
    monkeypatch.setattr(module, "START_S", 60.0)
    monkeypatch.setattr(module, "QUIT_S", 60.0)
    return Mps(fake.folder, str(fake.program))


async def test_a_daemon_is_started_once_and_ended_when_nobody_needs_it(fake, mps):
    assert mps.may_serve(GPU)
    assert not mps.serves(GPU, OWN)
    await asyncio.gather(mps.start(GPU, OWN), mps.start(GPU, OWN))
    assert mps.serves(GPU, OWN)
    assert fake.starts() == [GPU]
    (pid,) = fake.pids()

    assert await mps.settle([GPU]) == []
    assert fake.pids() == [pid]
    assert await mps.settle([]) == []
    assert not mps.serves(GPU, OWN)
    await until(lambda: not Path(f"/proc/{pid}").exists(), "the daemon has gone")
    assert fake.pids() == []


async def test_a_worker_is_bound_to_its_devices_daemon_within_its_share(fake, mps):
    told = mps.environment(GPU, 250, 20 * 2**30)
    await mps.start(GPU, OWN)
    (file,) = fake.folder.glob("*/*.pid")
    assert told["CUDA_MPS_PIPE_DIRECTORY"] == str(file.parent)
    assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M"
    assert mps.environment(GPU, 1, 1)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "1"


async def test_an_agent_that_is_started_anew_finds_the_daemons_that_are_needed(fake, mps):
    await mps.start(GPU, OWN)
    anew = Mps(fake.folder, str(fake.program))
    assert await anew.settle([GPU]) == []
    assert anew.serves(GPU, OWN)
    assert fake.starts() == [GPU]
    await anew.settle([])


async def test_an_agent_that_is_started_anew_ends_the_daemons_that_are_not(fake, mps):
    await mps.start(GPU, OWN)
    await Mps(fake.folder, str(fake.program)).settle([])
    assert fake.pids() == []


async def test_a_daemon_waits_for_who_asked_for_it(fake, mps, monkeypatch):
    monkeypatch.setattr(module, "LINGER_S", 1_000.0)
    await mps.start(GPU, OWN)
    await mps.settle([])
    assert mps.serves(GPU, OWN)
    assert len(fake.pids()) == 1


async def test_a_daemon_that_died_is_noticed_once_and_started_again_for_the_next(fake, mps):
    await mps.start(GPU, OWN)
    (pid,) = fake.pids()
    fake.kill()
    await until(lambda: not _lives(pid), "the daemon has gone")

    assert await mps.settle([GPU]) == [GPU]
    assert await mps.settle([GPU]) == []
    assert not mps.serves(GPU, OWN)
    await mps.start(GPU, OWN)
    assert mps.serves(GPU, OWN)
    assert fake.starts() == [GPU, GPU]


async def test_a_device_whose_daemon_does_not_start_is_left_alone_for_a_while(
    fake, mps, monkeypatch
):
    monkeypatch.setattr(module, "START_S", 0.2)
    fake.refuses.touch()
    await mps.start(GPU, OWN)
    assert not mps.serves(GPU, OWN)
    assert not mps.may_serve(GPU)
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    monkeypatch.setattr(module, "START_S", 60.0)
    fake.refuses.unlink()
    assert mps.may_serve(GPU)
    await mps.start(GPU, OWN)
    assert mps.serves(GPU, OWN)


async def test_without_the_program_nothing_is_served(tmp_path):
    assert not Mps(tmp_path, "no-such-program").may_serve(GPU)


class Whole(SimulatedDevices):
    """Devices as NVML's, without a driver."""

    def list(self):
        return tuple(
            Device(device=f"GPU-{n}", index=n, model="H100-80GB", memory_bytes=80 * 2**30)
            for n in range(2)
        )


def assignment(*shares):
    held = tuple(Share(device=device, milli=milli) for device, milli in shares)
    return Assignment(job="a", attempt=1, rank=0, position=1, project="p", shares=held)


async def test_a_part_of_a_gpu_waits_for_its_daemon_and_a_whole_one_does_not(tmp_path, fake, mps):
    enforcer = Enforcer(Whole("simulated:2xH100-80GB", "n1"), tmp_path, mps)
    half, whole = assignment((GPU, 500)), assignment((GPU, 1000))
    assert enforcer.is_ready(whole)
    assert enforcer.is_ready(assignment(("GPU-0", 500), ("GPU-1", 500)))
    assert not enforcer.is_ready(half)
    await enforcer.prepare(half)
    assert enforcer.is_ready(half)

    bound = enforcer.bind(half)
    assert bound.enforcement == "mps"
    assert bound.facts["CUDA_VISIBLE_DEVICES"] == GPU
    assert bound.facts["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=40960M"
    assert enforcer.bind(whole).enforcement == "none"


async def test_a_daemon_lives_as_long_as_a_worker_that_it_holds_and_its_death_is_said(
    tmp_path, fake, mps
):
    enforcer = Enforcer(Whole("simulated:2xH100-80GB", "n1"), tmp_path, mps)
    await enforcer.prepare(assignment((GPU, 500)))
    seen = Seen(
        phase="running", project="p", enforcement="mps", shares=(Share(device=GPU, milli=500),)
    )
    key = AttemptKey("a", 1, 0)
    await enforcer.settle({key: seen})
    (pid,) = fake.pids()
    fake.kill()
    await until(lambda: not _lives(pid), "the daemon has gone")
    await enforcer.settle({key: seen})

    end = enforcer.told(key, End(reason="exited", exit_code=1, message="exit code 1"), seen, {})
    assert end.message == "exit code 1; the MPS daemon of GPU-0 had died"
    await enforcer.settle({})
    assert fake.pids() == []


async def test_a_daemon_serves_one_account_and_the_next_when_nobody_needs_it(fake, mps):
    await mps.start(GPU, OWN)
    assert not mps.serves(GPU, OTHER)
    assert mps.serves_another(GPU, OTHER)
    await mps.start(GPU, OTHER)
    assert fake.starts() == [GPU]
    anew = Mps(fake.folder, str(fake.program))
    await anew.settle([GPU])
    assert anew.serves_another(GPU, OTHER)

    await mps.settle([])
    await mps.start(GPU, OTHER)

    assert mps.serves(GPU, OTHER)
    assert fake.starts() == [GPU, GPU]
    await mps.settle([])


async def test_beside_another_accounts_workers_a_part_is_watched_and_starts_at_once(
    tmp_path, fake, mps
):
    accounts = {"ada": OWN, "bob": OTHER}
    devices = Whole("simulated:2xH100-80GB", "n1", tmp_path / "s")
    enforcer = Enforcer(devices, tmp_path, mps, lambda worker: accounts[worker.user])
    ada = msgspec.structs.replace(assignment((GPU, 500)), user="ada")
    bob = msgspec.structs.replace(ada, job="b", user="bob")
    await enforcer.prepare(ada)

    assert enforcer.is_ready(bob)
    assert enforcer.bind(bob).enforcement == "watch"
    assert "CUDA_MPS_PIPE_DIRECTORY" not in enforcer.bind(bob).facts
    assert enforcer.bind(ada).enforcement == "mps"
    await enforcer.settle({})


async def test_a_part_is_watched_where_no_daemon_can_be_had(tmp_path, fake, mps, monkeypatch):
    monkeypatch.setattr(module, "START_S", 0.2)
    fake.refuses.touch()
    enforcer = Enforcer(Whole("simulated:2xH100-80GB", "n1", tmp_path / "s"), tmp_path, mps)
    half = assignment((GPU, 500))
    await enforcer.prepare(half)
    assert enforcer.is_ready(half)
    assert enforcer.bind(half).enforcement == "watch"


def _lives(pid):
    """A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
