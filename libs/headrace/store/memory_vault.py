"""Project keys and secrets in memory, beside the log in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.store.interface import NotAllowed, key_id_of
from headrace.store.memory_log import MemoryLog
from headrace.store.roles import VAULT_READERS, VAULT_WRITER

T = TypeVar("T")


class MemoryVault:
    """A `Vault` over the log of the store it is part of."""

    _log: MemoryLog
    _role: str

    async def _at(self, operation: str, work: Callable[[], T]) -> T:
        raise NotImplementedError

    async def project_key(self, project: str) -> tuple[str, bytes] | None:
        """See `Vault.project_key`."""

        def find() -> tuple[str, bytes] | None:
            self._check_vault(VAULT_READERS)
            return self._log.project_keys.get(project)

        return await self._at("project_key", find)

    async def add_project_key(self, project: str, wrapped: bytes) -> tuple[str, bytes]:
        """See `Vault.add_project_key`."""

        def add() -> tuple[str, bytes]:
            self._check_vault((VAULT_WRITER,))
            if project not in self._log.project_keys:
                self._log.project_keys[project] = (key_id_of(wrapped), wrapped)
            return self._log.project_keys[project]

        return await self._at("add_project_key", add)

    async def wrapped_key(self, key_id: str) -> bytes | None:
        """See `Vault.wrapped_key`."""
        return await self._at("wrapped_key", lambda: self._by_id(key_id))

    async def drop_project_keys(self, project: str) -> int:
        """See `Vault.drop_project_keys`."""

        def drop() -> int:
            self._check_vault((VAULT_WRITER,))
            names = [name for name in self._log.secrets if name[0] == project]
            for name in names:
                del self._log.secrets[name]
            had_key = self._log.project_keys.pop(project, None) is not None
            return len(names) + had_key

        return await self._at("drop_project_keys", drop)

    async def put_secret(self, project: str, name: str, version: str, sealed: bytes) -> None:
        """See `Vault.put_secret`."""

        def put() -> None:
            self._check_vault((VAULT_WRITER,))
            self._log.secrets[project, name, version] = sealed

        await self._at("put_secret", put)

    async def secret(self, project: str, name: str, version: str) -> bytes | None:
        """See `Vault.secret`."""

        def find() -> bytes | None:
            self._check_vault(VAULT_READERS)
            return self._log.secrets.get((project, name, version))

        return await self._at("secret", find)

    def _check_vault(self, roles: tuple[str, ...]) -> None:
        if self._role and self._role not in roles:
            raise NotAllowed(f"role {self._role} may not do this in the vault")

    def _by_id(self, key_id: str) -> bytes | None:
        self._check_vault(VAULT_READERS)
        for kept_id, wrapped in self._log.project_keys.values():
            if kept_id == key_id:
                return wrapped
        return None
