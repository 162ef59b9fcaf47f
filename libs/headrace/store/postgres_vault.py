"""Project keys and secrets in Postgres: two small tables beside the log."""

from __future__ import annotations

from typing import Any

from headrace.store.connection import Lane
from headrace.store.interface import key_id_of

_KEY = "SELECT id, wrapped FROM headrace.project_key WHERE project = $1"
_ADD_KEY = (
    "INSERT INTO headrace.project_key (id, project, wrapped) VALUES ($1, $2, $3)"
    " ON CONFLICT (project) DO NOTHING"
)
_KEY_BY_ID = "SELECT wrapped FROM headrace.project_key WHERE id = $1"
_DROP_KEYS = "DELETE FROM headrace.project_key WHERE project = $1 RETURNING 1"
_DROP_SECRETS = "DELETE FROM headrace.secret WHERE project = $1 RETURNING 1"
_PUT_SEALED = (
    "INSERT INTO headrace.secret (project, name, version, sealed) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (project, name, version) DO UPDATE SET sealed = excluded.sealed"
)
_SEALED = "SELECT sealed FROM headrace.secret WHERE project = $1 AND name = $2 AND version = $3"


class PostgresVault:
    """A `Vault` over the connections of the store it is part of."""

    def _idlest(self) -> Lane:
        raise NotImplementedError

    async def project_key(self, project: str) -> tuple[str, bytes] | None:
        """See `Vault.project_key`."""
        row = await self._idlest().run(lambda c: c.fetchrow(_KEY, project))
        return None if row is None else (row[0], row[1])

    async def add_project_key(self, project: str, wrapped: bytes) -> tuple[str, bytes]:
        """See `Vault.add_project_key`."""

        async def add(connection: Any) -> Any:
            row = None
            while row is None:  # dropped between the two statements: ours may be first again
                await connection.execute(_ADD_KEY, key_id_of(wrapped), project, wrapped)
                row = await connection.fetchrow(_KEY, project)
            return row

        row = await self._idlest().run(add)
        return row[0], row[1]

    async def wrapped_key(self, key_id: str) -> bytes | None:
        """See `Vault.wrapped_key`."""
        return await self._value(_KEY_BY_ID, key_id)

    async def drop_project_keys(self, project: str) -> int:
        """See `Vault.drop_project_keys`."""

        async def drop(connection: Any) -> int:
            async with connection.transaction():
                keys = await connection.fetch(_DROP_KEYS, project)
                secrets = await connection.fetch(_DROP_SECRETS, project)
            return len(keys) + len(secrets)

        return await self._idlest().run(drop)

    async def put_secret(self, project: str, name: str, version: str, sealed: bytes) -> None:
        """See `Vault.put_secret`."""
        await self._value(_PUT_SEALED, project, name, version, sealed)

    async def secret(self, project: str, name: str, version: str) -> bytes | None:
        """See `Vault.secret`."""
        return await self._value(_SEALED, project, name, version)

    async def _value(self, query: str, *arguments: Any) -> bytes | None:
        value: bytes | None = await self._idlest().run(lambda c: c.fetchval(query, *arguments))
        return value
