"""The weak spots of a platform, for `headrace doctor --security`: one check each.

Rule: the checks of a data folder read files and modes, those of a platform ask its gateway, and none
changes anything. What can only be seen by somebody else (another user of the machine, the network) is
judged by what is configured, not tried.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from headrace.client.client import Client
from headrace.client.errors import ClientError
from headrace.client.model import NodeRow
from headrace.client.people_model import TokenRow, UserRow
from headrace.doctor import Check, failed, ok, warning
from headrace.events.accounts import UNISOLATED
from headrace.trust.join_token import JoinTokenRow

LOOPBACK = ("127.0.0.1", "::1", "localhost")
OTHERS = stat.S_IRWXG | stat.S_IRWXO
NAMED_MAX = 5  # of what one line names


def check_folder(data_dir: Path) -> Check:
    """Whether anybody but its owner gets into the folder with the platform's keys."""
    open_ = [
        str(path)
        for path in (data_dir, data_dir / "secrets", *(data_dir / "secrets").glob("*"))
        if path.lstat().st_mode & OTHERS
    ]
    if open_:
        fix = f"chmod -R go= {data_dir / 'secrets'} && chmod 700 {data_dir}"
        return failed("folder", f"others may enter {_named(open_)}", fix)
    return ok("folder", f"{data_dir}: its owner's alone")


def check_token_file(config: Path) -> Check:
    """Whether others can read the tokens that this person's command line uses."""
    try:
        mode = config.stat().st_mode
    except FileNotFoundError:
        return ok("config", "no tokens are kept here")
    if mode & OTHERS:
        return failed("config", f"others may read the tokens in {config}", f"chmod 600 {config}")
    return ok("config", f"{config}: its owner's alone")


def check_door(url: str) -> Check:
    """Whether tokens cross a network in clear."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in LOOPBACK:
        return ok("door", url)
    fix = "headrace up --tls-self-signed, or --tls-cert and --tls-key"
    return failed("door", f"{url}: tokens and output cross the network in clear", fix)


def check_database(dsn: str) -> Check:
    """A database of the installation's own: whether its password and the log cross in clear."""
    host = urlsplit(dsn).hostname or ""
    is_near = not host or host in LOOPBACK or "host=/" in dsn
    if is_near or any(f"sslmode={mode}" in dsn for mode in ("verify-full", "verify-ca")):
        return ok("postgres", "its server is proven, or is this machine")
    fix = "add ?sslmode=verify-full&sslrootcert=FILE to HEADRACE_PG_DSN"
    return failed("postgres", f"{host}: whoever answers there is believed to be the log", fix)


def check_bus(url: str) -> Check:
    """A bus of the installation's own: whether messages cross a network in clear."""
    parts = urlsplit(url)
    if parts.scheme == "tls" or parts.hostname in LOOPBACK:
        return ok("bus", "encrypted, or this machine")
    return failed(
        "bus", f"{url}: messages cross the network in clear", "use tls://, with a certificate"
    )


def check_tokens(tokens: Sequence[TokenRow]) -> Check:
    """Whether an API token is good for ever, and for everything."""
    endless = [f"{row.user}/{row.name or row.token}" for row in tokens if not row.expires_at_us]
    if endless:
        fix = "headrace token revoke ID, and create it anew with --expires and --scope"
        return warning("tokens", f"{len(endless)} never expire: {_named(endless)}", fix)
    return ok("tokens", f"{len(tokens)}, all of which expire")


def check_join_tokens(tokens: Sequence[JoinTokenRow]) -> Check:
    """Whether machines may become nodes without anybody's look at them."""
    open_ = [row.token for row in tokens if row.state == "open" and row.auto_approve]
    if open_:
        fix = "headrace node token --revoke ID when the machines have joined"
        return warning("joining", f"whoever has {_named(open_)} joins unseen", fix)
    return ok("joining", "every machine that joins is approved by somebody")


def check_services(users: Sequence[UserRow]) -> Check:
    """Which accounts speak for people."""
    acting = [row.user for row in users if row.acts_for]
    if acting:
        fix = "headrace user set NAME --service without --acts-for, where it is not needed"
        return warning("services", f"{_named(acting)} may ask in the name of people", fix)
    return ok("services", "none asks in the name of people")


def check_nodes(nodes: Sequence[NodeRow]) -> Iterator[Check]:
    """What keeps jobs apart on each node, as it says itself."""
    for row in nodes:
        if row.isolation.startswith(UNISOLATED):
            fix = "headrace doctor --security, on that machine"
            yield failed(row.node, f"jobs are not kept from each other: {row.isolation}", fix)
        else:
            yield ok(row.node, f"jobs are kept apart by {row.isolation}")


def of_folder(data_dir: Path) -> Iterator[Check]:
    """Of a platform that this machine keeps."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        yield check_folder(data_dir)
    if dsn := os.environ.get("HEADRACE_PG_DSN"):
        yield check_database(dsn)
    if url := os.environ.get("HEADRACE_NATS_URL"):
        yield check_bus(url)


def of_platform(client: Client) -> Iterator[Check]:
    """Of the platform that this client asks, as far as its person may see."""
    yield check_door(client.url)
    for look in (
        lambda: [check_tokens(client.tokens())],
        lambda: [check_join_tokens(client.join_tokens())],
        lambda: [check_services(client.users())],
        lambda: check_nodes(client.nodes()),
    ):
        try:
            yield from look()
        except ClientError as error:
            yield warning("platform", str(error), "ask as an admin: headrace context use NAME")


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return " ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
