"""`node`: list, describe, cordon, uncordon, fence."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.arguments import add_connection, add_output
from headrace.cli.exits import DONE, USAGE, printable, report
from headrace.cli.output import gpus, show, size, table
from headrace.client.client import Client
from headrace.client.model import NodeRow

CHANGES = ("cordon", "uncordon", "fence")
DONE_WORDS = {"cordon": "cordoned", "uncordon": "uncordoned", "fence": "fenced"}
NODES = ("NODE", "STATE", "GPUS", "HELD", "FREE", "CPUS", "MEMORY", "JOBS", "LABELS")


def node_options(parser: ArgumentParser) -> None:
    """The arguments of `node`."""
    parser.add_argument("action", choices=("list", "describe", *CHANGES))
    parser.add_argument("node", nargs="?", default="", metavar="NODE")
    add_connection(parser)
    add_output(parser)


def node(*, action: str, node: str, url: str, token: str, project: str, output: str) -> int:
    """Look at nodes, or say whether they take work; a fenced one runs nothing."""
    del project  # nodes belong to the whole fleet
    client = Client.from_config(url=url, token=token)
    if action == "list":
        return _list(client.nodes(), output)
    if not node:
        return report(f"headrace node {action}: which node? (headrace node list)", USAGE)
    if action == "describe":
        return _describe(client.node(node), output)
    client.change_node(node, action)
    print(f"{printable(node)} {DONE_WORDS[action]}")
    return DONE


def _list(rows: list[NodeRow], output: str) -> int:
    if output in ("json", "yaml"):
        show(rows, output)
        return DONE
    table(NODES, [_cells(row) for row in rows], wide=output == "wide")
    return DONE


def _cells(row: NodeRow) -> list[str]:
    simulated = " (simulated)" if row.simulated else ""
    return [
        row.node,
        row.state,
        f"{row.gpus} × {row.model}{simulated}" if row.gpus else "–",
        gpus(row.held_milli),
        gpus(row.milli - row.held_milli),
        gpus(row.cpu_milli),
        size(row.memory_bytes),
        str(len(row.jobs)),
        " ".join(f"{name}={value}" for name, value in sorted(row.labels.items())) or "–",
    ]


def _describe(row: NodeRow, output: str) -> int:
    if output in ("json", "yaml"):
        show(row, output)
        return DONE
    _list([row], output)
    where = f"host {row.host}   address {row.address}   agent {row.version or '–'}"
    print(f"\n{printable(where)}\n")
    cells = [
        [
            str(gpu.index),
            gpu.device,
            gpu.model,
            size(gpu.memory_bytes),
            printable(gpu.fault) or ("" if gpu.healthy else "unhealthy"),
            " ".join(f"{job} {gpus(milli)}" for job, milli in gpu.held.items()) or "free",
        ]
        for gpu in row.devices
    ]
    table(("GPU", "DEVICE", "MODEL", "MEMORY", "", "HELD BY"), cells, wide=output == "wide")
    return DONE
