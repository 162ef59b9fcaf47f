"""The data key of each project, kept wrapped under the master key.

Rule: dropping a project's key makes all that was sealed under it unreadable, for good. Whoever
caches keys forgets them when a project is erased and when it starts to lead.
"""

from __future__ import annotations

from typing import Protocol

from headrace.vault.sealing import new_key, unwrap, wrap

CACHED_KEYS_MAX = 1_000  # about 200 kB


class KeyKeeper(Protocol):
    """Where wrapped keys are kept: the part of a store's `Vault` that is needed here."""

    async def project_key(self, project: str) -> tuple[str, bytes] | None: ...

    async def add_project_key(self, project: str, wrapped: bytes) -> tuple[str, bytes]: ...

    async def wrapped_key(self, key_id: str) -> bytes | None: ...

    async def drop_project_keys(self, project: str) -> int: ...


class ProjectKeys:
    """Makes, finds and forgets the keys of projects."""

    def __init__(self, vault_store: KeyKeeper, master_key: bytes) -> None:
        self._vault = vault_store
        self._master_key = master_key
        self._ids: dict[str, str] = {}  # project: id of its current key
        self._keys: dict[str, bytes] = {}  # id: key

    async def current(self, project: str) -> tuple[str, bytes]:
        """The id and key that the project seals with now, made at first use. Raises `StoreError`,
        and `VaultError` when the master key is not the one it was wrapped with.
        """
        key_id = self._ids.get(project, "")
        if key_id in self._keys:
            return key_id, self._keys[key_id]
        found = await self._vault.project_key(project)
        if found is None:
            found = await self._vault.add_project_key(project, wrap(self._master_key, new_key()))
        key_id, wrapped = found
        key = self._remember(key_id, wrapped)
        self._ids[project] = key_id
        return key_id, key

    async def by_id(self, key_id: str) -> bytes | None:
        """The key, or None once it was dropped. Raises as `current`."""
        if key_id in self._keys:
            return self._keys[key_id]
        wrapped = await self._vault.wrapped_key(key_id)
        return None if wrapped is None else self._remember(key_id, wrapped)

    async def drop(self, project: str) -> int:
        """Drop the project's keys and secrets from the vault and forget them here; how many."""
        try:
            return await self._vault.drop_project_keys(project)
        finally:
            self.forget()

    def forget(self) -> None:
        """Empty the cache: another process may have dropped a key."""
        self._ids.clear()
        self._keys.clear()

    def _remember(self, key_id: str, wrapped: bytes) -> bytes:
        key = unwrap(self._master_key, wrapped)
        if len(self._keys) >= CACHED_KEYS_MAX:
            self.forget()
        self._keys[key_id] = key
        return key
