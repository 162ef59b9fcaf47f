"""What every log promises about terms and snapshots."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.services import LEASE_S, event, leader, snapshot

from headrace.store.interface import GENESIS

# leadership


async def test_a_lease_keeps_other_holders_out(logs):
    store = await logs.store("admission")
    first = await store.lead("admission", "one", LEASE_S)
    assert first is not None
    assert await store.lead("admission", "two", LEASE_S) is None
    assert await store.renew("admission", "one", first.epoch, LEASE_S)
    assert not await store.renew("admission", "two", first.epoch, LEASE_S)


async def test_the_same_holder_gets_a_new_term_at_once(logs):
    store = await logs.store("admission")
    first = await store.lead("admission", "one", LEASE_S)
    second = await store.lead("admission", "one", LEASE_S)
    assert first is not None
    assert second is not None
    assert (second.epoch, second.holder) == (first.epoch + 1, "one")
    assert not await store.renew("admission", "one", first.epoch, LEASE_S)


@pytest.mark.parametrize("ending", ["expired", "resigned"])
async def test_a_lease_that_ended_is_taken_over(logs, ending):
    store = await logs.store("admission")
    first = await store.lead("admission", "one", 0.0 if ending == "expired" else LEASE_S)
    assert first is not None
    if ending == "resigned":
        await store.resign("admission", "one", first.epoch)
    second = await store.lead("admission", "two", LEASE_S)
    assert second is not None
    assert second.epoch == first.epoch + 1
    await store.resign("admission", "one", first.epoch)  # too late to end another's lease
    assert await store.lead("admission", "one", LEASE_S) is None


async def test_a_clock_that_is_set_back_lets_no_dead_leader_lead_for_longer(logs):
    store = await logs.store("admission")
    first = await store.lead("admission", "one", 0.001)
    await logs.set_clock_back()
    async with asyncio.timeout(LEASE_S):
        while (second := await store.lead("admission", "two", LEASE_S)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert second.epoch == first.epoch + 1


async def test_a_clock_that_is_set_back_takes_the_lead_from_nobody_who_renews(logs):
    store = await logs.store("admission")
    first = await store.lead("admission", "one", LEASE_S)
    await logs.set_clock_back()
    assert await store.lead("admission", "two", LEASE_S) is None
    assert await store.renew("admission", "one", first.epoch, LEASE_S)
    assert await store.lead("admission", "two", LEASE_S) is None


async def test_an_expired_term_that_nobody_took_goes_on(logs):
    store = await logs.store("admission")
    term = await store.lead("admission", "one", 0.0)
    assert term is not None
    await store.append("admission", term.epoch, 0, GENESIS, [event(1)])
    assert await store.renew("admission", "one", term.epoch, LEASE_S)


async def test_services_have_terms_of_their_own(logs):
    admission = await leader(logs)
    quota = await leader(logs, "quota", holder="two")
    assert (admission.epoch, quota.epoch) == (1, 1)


# snapshots


async def saved(one, *, version="v1", data=b"state"):
    new = snapshot(one.service, one.position, one.hash, version, data)
    await one.store.save_snapshot(new)
    return new


async def test_the_latest_snapshot_of_the_same_code_is_loaded(logs):
    admission = await leader(logs)
    assert await admission.store.load_snapshot("admission", "v1") is None
    await saved(admission)
    await admission.append(event(1))
    latest = await saved(admission, data=b"later")
    assert await admission.store.load_snapshot("admission", "v1") == latest
    assert await admission.store.load_snapshot("admission", "v2") is None
    replaced = await saved(admission, data=b"again")
    assert await admission.store.load_snapshot("admission", "v1") == replaced


async def test_only_the_last_snapshot_before_is_kept(logs):
    admission = await leader(logs)
    await saved(admission, version="v1")
    await admission.append(event(1))
    await saved(admission, version="v2")
    await admission.append(event(2))
    await saved(admission, version="v3")
    found = [await admission.store.load_snapshot("admission", v) for v in ("v1", "v2", "v3")]
    assert [s and s.position for s in found] == [None, 1, 2]


async def test_a_snapshot_of_another_log_is_neither_loaded_nor_in_the_way(logs):
    admission = await leader(logs)
    await admission.append(event(1))
    right = await saved(admission, version="v1")
    await admission.store.save_snapshot(snapshot("admission", 9, b"\1" * 32, "v1"))
    assert await admission.store.load_snapshot("admission", "v1") == right
    await admission.append(event(2))
    newer = await saved(admission, version="v2")
    assert await admission.store.load_snapshot("admission", "v2") == newer
    assert await admission.store.load_snapshot("admission", "v1") == right


async def test_services_have_snapshots_of_their_own(logs):
    await saved(await leader(logs))
    quota = await leader(logs, "quota")
    assert await quota.store.load_snapshot("quota", "v1") is None
