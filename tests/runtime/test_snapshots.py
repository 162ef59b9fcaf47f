"""Snapshots are kept while the turns go on."""

import asyncio

from .rig import Rig, virtual


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
