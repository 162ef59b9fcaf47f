"""`node`: list and look at nodes, let machines join, take nodes out of the fleet."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from headrace.cli.arguments import Parser, add_connection, add_output, add_watch
from headrace.cli.confirmation import add_yes
from headrace.cli.exits import DONE, printable
from headrace.cli.output import gpus, show, size, table
from headrace.client.client import Client
from headrace.client.model import NodeRow

CHANGES = {  # what an operator does to a node, what is said then, and about it
    "cordon": ("cordoned", "give it no new work; what runs there runs on"),
    "uncordon": ("uncordoned", "give it work again"),
    "fence": ("fenced", "state that nothing runs on that silent machine any more"),
    "end-strays": ("ends them", "end what runs there and the log has not placed there"),
    "delete": ("deleted", "take an empty node out of the fleet; its key is worth nothing then"),
}
NODES = ("NODE", "STATE", "GPUS", "HELD", "FREE", "CPUS", "MEMORY", "JOBS", "LABELS")


def node_options(parser: ArgumentParser) -> None:
    """The arguments of `node`: an action, and its own."""
    from headrace.cli import draining, joining

    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=Parser
    )

    def action(name: str, about: str, *, node: bool = True) -> ArgumentParser:
        made = actions.add_parser(name, help=about, description=f"{about}.", allow_abbrev=False)
        if node:
            made.add_argument("node", metavar="NODE", help="as headrace node list has it")
        add_connection(made)
        return made

    shown = action("list", "every node, and who waits to be one", node=False)
    for parsed in (shown, action("describe", "one node with its GPUs and who holds them")):
        add_output(parsed)
        add_watch(parsed)
    action("approve", "let the machine in that waits to be this node")
    action("reject", "turn it away")
    for name, (_, about) in CHANGES.items():
        changed = action(name, about)
        if name == "delete":
            add_yes(
                changed
            )  # as of all that deletes, though an empty node loses nothing: none asks
    draining.drain_options(
        action("drain", "cordon it, let its jobs end, and ask the others to move")
    )
    draining.forget_options(action("forget", "give up a lost machine, and what ran there"))
    tokens = action("tokens", "join tokens, who used them and until when", node=False)
    add_output(tokens)
    joining.token_options(action("token", "make a token with which machines join", node=False))
    join = actions.add_parser("join", help="make this machine a node", allow_abbrev=False)
    join.add_argument("head", metavar="URL", help="of the platform, such as https://head:7400")
    join.add_argument(
        "--token", dest="given", default="", help="or - for standard input, or HEADRACE_JOIN_TOKEN"
    )
    joining.join_options(join)
    run = actions.add_parser(
        "run", help="run the agent of this machine, which has joined", allow_abbrev=False
    )
    joining.run_options(run)


def node(*, action: str, **given: Any) -> int:
    """Do it."""
    from headrace.cli import draining, joining

    if action == "run":
        return joining.run(given["dir"])
    if action == "join":
        return joining.join(
            given["head"],
            given["given"],
            name=given["name"],
            folder=given["dir"],
            gpus=given["gpus"],
            address=given["address"],
            labels=given["label"],
            install_service=given["install_service"],
        )
    client = Client.from_config(url=given["url"], token=given["token"])
    name = given.get("node", "")
    actions: dict[str, Callable[[], int]] = {
        "list": lambda: _list(client.nodes(), given["output"]),
        "describe": lambda: _describe(client.node(name), given["output"]),
        "approve": lambda: _approve(client, name, approved=True),
        "reject": lambda: _approve(client, name, approved=False),
        "drain": lambda: draining.drain(
            client, name, deadline=given["deadline"], is_sure=given["yes"]
        ),
        "forget": lambda: draining.forget(client, name, is_sure=given["yes"]),
        "token": lambda: _token(client, **given),
        "tokens": lambda: joining.list_tokens(client.join_tokens(), given["output"]),
    }
    return actions.get(action, lambda: _change(client, name, action))()


def _token(
    client: Client, *, revoke: str, uses: int, expires: str, auto_approve: bool, **_: object
) -> int:
    from headrace.cli import joining

    if revoke:
        return joining.revoke_token(client, revoke)
    return joining.make_token(client, uses=uses, expires=expires, auto_approve=auto_approve)


def _change(client: Client, name: str, change: str) -> int:
    client.change_node(name, change)
    print(f"{printable(name)} {CHANGES[change][0]}")
    return DONE


def _approve(client: Client, name: str, *, approved: bool) -> int:
    answer = client.approve_node(name, approved=approved)
    print(printable(f"{name} {answer.change}"))
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
    if row.apart:
        print(f"\n{printable(f'{row.node} {row.apart}')}")
    print(f"\n{printable(where)}\nisolation of jobs: {printable(row.isolation or '–')}\n")
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
