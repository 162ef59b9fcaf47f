"""Snapshots are kept while the turns go on."""

import asyncio
from dataclasses import replace

from headrace.runtime.folding import Folder
from headrace.store.memory import MemoryStore
from headrace.store.memory_log import MemoryLog

from .rig import DECIDER, Rig, virtual


@virtual
async def test_nobody_waits_until_a_snapshot_is_kept(monkeypatch):
    monkeypatch.setattr("headrace.runtime.folding.SNAPSHOT_EVENTS", 1)
    rig = Rig()
    await rig.leading()
    rig.slow["a save_snapshot.before"] = slow_s = 20.0
    began_s = asyncio.get_running_loop().time()
    assert (await rig.ask("one"))["accepted"]
    assert (await rig.ask("two"))["accepted"]
    assert not rig.slow, "a snapshot is under way"
    assert asyncio.get_running_loop().time() - began_s < slow_s / 2


@virtual
async def test_services_that_read_the_same_log_keep_their_snapshots_at_different_places(
    monkeypatch,
):
    monkeypatch.setattr("headrace.runtime.folding.SNAPSHOT_EVENTS", 100)
    log = MemoryLog()
    kept = [await _kept(service, log) for service in ("admission", "quota", "placement", "metrics")]
    assert {len(positions) for positions in kept} == {3}
    assert len({position for positions in kept for position in positions}) == 12


async def _kept(service, log):
    """Where this service keeps snapshots within the first 300 events."""
    store = MemoryStore(log, lambda: 0)
    folder = Folder(replace(DECIDER, service=service), store, "v1")
    kept = set()
    for position in range(1, 301):
        folder.save_when_due(position, b"")
        await asyncio.sleep(0)
        kept |= set(log.snapshots[service])
    return kept
