"""What is kept beside every log so that it can be forgotten."""

from __future__ import annotations

import asyncio

import pytest

from headrace.store.interface import NotAllowed


async def test_whoever_makes_a_projects_key_first_wins(logs):
    store = await logs.store("admission")
    assert await store.project_key("vision") is None
    keys = await asyncio.gather(*(store.add_project_key("vision", b"%d" % n) for n in range(5)))
    assert len(set(keys)) == 1
    key_id, wrapped = keys[0]
    assert await store.project_key("vision") == (key_id, wrapped)
    assert await store.wrapped_key(key_id) == wrapped
    assert await store.wrapped_key("no-such-key") is None


async def test_a_dropped_project_is_forgotten_and_its_next_key_has_another_id(logs):
    store = await logs.store("admission")
    old_id, _ = await store.add_project_key("vision", b"old")
    other_id, _ = await store.add_project_key("ads", b"ads")
    await store.put_secret("vision", "TOKEN", "1", b"sealed")
    await store.put_secret("ads", "TOKEN", "1", b"sealed")
    assert await store.drop_project_keys("vision") == 2
    assert await store.project_key("vision") is None
    assert await store.wrapped_key(old_id) is None
    assert await store.secret("vision", "TOKEN", "1") is None
    assert await store.wrapped_key(other_id) == b"ads"
    assert await store.secret("ads", "TOKEN", "1") == b"sealed"
    assert await store.drop_project_keys("vision") == 0
    new_id, _ = await store.add_project_key("vision", b"new")
    assert new_id != old_id


async def test_each_version_of_a_secret_is_kept(logs):
    store = await logs.store("admission")
    await store.put_secret("vision", "TOKEN", "1", b"first")
    await store.put_secret("vision", "TOKEN", "2", b"second")
    await store.put_secret("vision", "TOKEN", "2", b"sealed again")
    assert await store.secret("vision", "TOKEN", "1") == b"first"
    assert await store.secret("vision", "TOKEN", "2") == b"sealed again"
    assert await store.secret("vision", "OTHER", "1") is None


async def test_placement_reads_the_vault_and_cannot_write_it(logs):
    admission = await logs.store("admission")
    key = await admission.add_project_key("vision", b"wrapped")
    await admission.put_secret("vision", "TOKEN", "1", b"sealed")
    placement = await logs.store("placement")
    assert await placement.project_key("vision") == key
    assert await placement.secret("vision", "TOKEN", "1") == b"sealed"
    with pytest.raises(NotAllowed):
        await placement.put_secret("vision", "TOKEN", "2", b"x")
    with pytest.raises(NotAllowed):
        await placement.add_project_key("ads", b"x")
    with pytest.raises(NotAllowed):
        await placement.drop_project_keys("vision")


async def test_quota_cannot_read_the_vault(logs):
    quota = await logs.store("quota")
    with pytest.raises(NotAllowed):
        await quota.project_key("vision")
    with pytest.raises(NotAllowed):
        await quota.secret("vision", "TOKEN", "1")
