"""`pool` and `volume`: which there are. `headrace apply` makes them."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.actions import add_action, add_actions, show_list
from headrace.cli.arguments import add_output
from headrace.cli.output import duration
from headrace.client.client import Client
from headrace.client.inventory_model import PoolRow, VolumeRow

POOLS = ("POOL", "NODES", "LABEL", "PLACEMENT", "MAX", "TOPOLOGY", "PRICE OF A GPU AND HOUR")
VOLUMES = ("VOLUME", "NODES", "LABEL", "NEAR", "PATH")
MICRO = 1_000_000


def pool_options(parser: ArgumentParser) -> None:
    """The arguments of `pool`."""
    add_output(add_action(add_actions(parser), "list", "pools: which nodes, how filled, prices"))


def pool(*, action: str, url: str, token: str, project: str, output: str) -> int:
    """List pools."""
    del action, project
    rows = Client.from_config(url=url, token=token).pools()
    return show_list(rows, POOLS, [_pool_cells(row) for row in rows], output)


def volume_options(parser: ArgumentParser) -> None:
    """The arguments of `volume`."""
    add_output(add_action(add_actions(parser), "list", "volumes, and which nodes reach them"))


def volume(*, action: str, url: str, token: str, project: str, output: str) -> int:
    """List volumes."""
    del action, project
    rows = Client.from_config(url=url, token=token).volumes()
    return show_list(rows, VOLUMES, [_volume_cells(row) for row in rows], output)


def _pool_cells(row: PoolRow) -> list[str]:
    prices = [f"{model} {micro / MICRO:.2f}" for model, micro in row.prices.items()]
    return [
        row.name,
        str(row.nodes),
        _label(row.label, row.value),
        row.placement,
        duration(row.max_duration_us) if row.max_duration_us else "–",
        " ".join(row.topology) or "–",
        f"{', '.join(prices)} {row.currency}" if prices else "–",
    ]


def _volume_cells(row: VolumeRow) -> list[str]:
    near = f"{row.near_label}={row.near_value}" if row.near_label else "–"
    return [row.name, str(row.nodes), _label(row.label, row.value), near, row.path]


def _label(label: str, value: str) -> str:
    return f"{label}={value}" if label else "every node"
