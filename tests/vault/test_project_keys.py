"""Each project has one key at a time, which can be forgotten for good."""

from __future__ import annotations

import asyncio

import pytest

from headrace.store.memory import MemoryLog, MemoryStore
from headrace.vault import VaultError, project_keys
from headrace.vault.project_keys import ProjectKeys

MASTER = bytes(range(32))


@pytest.fixture
def log():
    return MemoryLog()


def keys_over(log, master=MASTER):
    return ProjectKeys(MemoryStore(log, lambda: 0), master)


async def test_a_project_keeps_the_key_made_at_first_use(log):
    keys = keys_over(log)
    key_id, key = await keys.current("vision")
    assert len(key) == 32
    assert await keys.current("vision") == (key_id, key)
    assert await keys_over(log).current("vision") == (key_id, key)
    assert await keys_over(log).by_id(key_id) == key


async def test_two_services_that_make_a_first_key_at_once_get_the_same(log):
    both = await asyncio.gather(keys_over(log).current("p"), keys_over(log).current("p"))
    assert both[0] == both[1]


async def test_projects_have_keys_of_their_own(log):
    keys = keys_over(log)
    assert len({await keys.current("vision"), await keys.current("ads")}) == 2


async def test_only_wrapped_bytes_are_kept(log):
    _, key = await keys_over(log).current("vision")
    assert key not in log.project_keys["vision"][1]
    with pytest.raises(VaultError):
        await keys_over(log, master=bytes(32)).current("vision")


async def test_a_dropped_key_is_gone_and_the_next_is_another(log):
    keys = keys_over(log)
    key_id, key = await keys.current("vision")
    assert await keys.drop("vision") == 1
    assert await keys.by_id(key_id) is None
    new_id, new = await keys.current("vision")
    assert new_id != key_id
    assert new != key


async def test_what_another_process_dropped_is_gone_once_forgotten(log):
    keys = keys_over(log)
    key_id, _ = await keys.current("vision")
    await keys_over(log).drop("vision")
    keys.forget()
    assert await keys.by_id(key_id) is None


async def test_the_cache_stays_small_and_right(log, monkeypatch):
    monkeypatch.setattr(project_keys, "CACHED_KEYS_MAX", 3)
    keys = keys_over(log)
    made = {project: await keys.current(project) for project in "abcdefgh"}
    assert len(keys._keys) <= 3
    for project, (key_id, key) in made.items():
        assert await keys.current(project) == (key_id, key)
        assert await keys.by_id(key_id) == key
