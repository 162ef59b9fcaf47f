"""Project keys and secrets in memory, beside the log in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from headrace.store.memory import MemoryLog

T = TypeVar("T")


class MemoryVault:
    """A `Vault` over the log of the store it is part of."""

    _log: MemoryLog

    async def _at(self, operation: str, work: Callable[[], T]) -> T:
        raise NotImplementedError

    async def project_key(self, project: str) -> tuple[str, bytes] | None:
        """See `Vault.project_key`."""
        return await self._at("project_key", lambda: self._log.project_keys.get(project))

    async def add_project_key(self, project: str, wrapped: bytes) -> tuple[str, bytes]:
        """See `Vault.add_project_key`."""

        def add() -> tuple[str, bytes]:
            if project not in self._log.project_keys:
                self._log.keys_made += 1
                self._log.project_keys[project] = (f"key-{self._log.keys_made}", wrapped)
            return self._log.project_keys[project]

        return await self._at("add_project_key", add)

    async def wrapped_key(self, key_id: str) -> bytes | None:
        """See `Vault.wrapped_key`."""
        return await self._at("wrapped_key", lambda: self._by_id(key_id))

    async def drop_project_keys(self, project: str) -> int:
        """See `Vault.drop_project_keys`."""

        def drop() -> int:
            names = [name for name in self._log.secrets if name[0] == project]
            for name in names:
                del self._log.secrets[name]
            had_key = self._log.project_keys.pop(project, None) is not None
            return len(names) + had_key

        return await self._at("drop_project_keys", drop)

    async def put_secret(self, project: str, name: str, version: str, sealed: bytes) -> None:
        """See `Vault.put_secret`."""

        def put() -> None:
            self._log.secrets[project, name, version] = sealed

        await self._at("put_secret", put)

    async def secret(self, project: str, name: str, version: str) -> bytes | None:
        """See `Vault.secret`."""
        return await self._at("secret", lambda: self._log.secrets.get((project, name, version)))

    def _by_id(self, key_id: str) -> bytes | None:
        for kept_id, wrapped in self._log.project_keys.values():
            if kept_id == key_id:
                return wrapped
        return None
