"""`/v1/pools`, `/v1/volumes`, `/v1/secrets`, `/v1/publishers`: which there are. They are made as
documents, or where each says so in `fleet_api`.
"""

from __future__ import annotations

import msgspec
from litestar import get
from litestar.params import FromQuery
from litestar.response import Response

from headrace.client.inventory_model import PoolRow, PublisherRow, SecretRow, VolumeRow
from headrace.events.pools import Pool
from headrace.events.volumes import Volume
from headrace.gateway.caller import By, may
from headrace.gateway.gateway import Gate
from headrace.gateway.listing import Paged, listed, listed_of_projects
from headrace.gateway.projection import Projection


@get("/pools", summary="Pools: which nodes, how they are filled, prices", opt=may("read", "pool"))
async def list_pools(gateway: Gate, page: Paged) -> Response[list[PoolRow]]:
    """In order of name."""
    projection = gateway.projection
    rows = [_pool_row(projection, pool) for pool in projection.pools.values()]
    return listed(rows, PoolRow, page, lambda row: (row.name,))


@get("/volumes", summary="Volumes, and which nodes reach them", opt=may("read", "volume"))
async def list_volumes(gateway: Gate, page: Paged) -> Response[list[VolumeRow]]:
    """In order of name."""
    projection = gateway.projection
    rows = [_volume_row(projection, volume) for volume in projection.volumes.values()]
    return listed(rows, VolumeRow, page, lambda row: (row.name,))


@get("/secrets", summary="Names of secrets; no value is ever shown", opt=may("list", "secret"))
async def list_secrets(
    gateway: Gate, by: By, page: Paged, project: FromQuery[str] = ""
) -> Response[list[SecretRow]]:
    """In order of project and name, of projects whose secrets one may set."""
    rows = gateway.projection.secrets.values()
    return listed_of_projects(rows, SecretRow, by, page, project)


@get("/publishers", summary="Who publishes jobs on the bus", opt=may("read", "publisher"))
async def list_publishers(
    gateway: Gate, by: By, page: Paged, project: FromQuery[str] = ""
) -> Response[list[PublisherRow]]:
    """In order of project and name. A key that was replaced is not among them."""
    rows = gateway.projection.publishers.values()
    return listed_of_projects(rows, PublisherRow, by, page, project)


def _pool_row(projection: Projection, pool: Pool) -> PoolRow:
    fields = msgspec.structs.asdict(pool)
    del fields["pool"]
    nodes = sum(pool.has(node.joined.labels) for node in projection.nodes.values())
    return PoolRow(name=pool.pool, nodes=nodes, **{**fields, "topology": list(pool.topology)})


def _volume_row(projection: Projection, volume: Volume) -> VolumeRow:
    nodes = sum(
        not volume.label or node.joined.labels.get(volume.label) == volume.value
        for node in projection.nodes.values()
    )
    fields = msgspec.structs.asdict(volume)
    del fields["volume"]
    return VolumeRow(name=volume.volume, nodes=nodes, **fields)
