"""The weak spots of a platform, for `headrace doctor --security`: one check each.

Rule: the platform's gateway is asked, as the person whose token is at hand; nothing is changed. What can
only be seen by somebody else (on the network) is judged by what is configured, not tried.
"""

from __future__ import annotations

import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from headrace.client.client import Client
from headrace.client.config import config_file
from headrace.client.errors import ClientError
from headrace.client.inventory_model import PublisherRow
from headrace.client.model import Happening, NodeRow
from headrace.client.people_model import TokenRow, UserRow
from headrace.doctor import Check, failed, named, ok, warning
from headrace.events.accounts import EVERYBODY, UNISOLATED, isolation_text
from headrace.trust.join_token import JoinTokenRow

LOOPBACK = ("127.0.0.1", "::1", "localhost")
DAY_US = 86_400_000_000
SOON_US = 7 * DAY_US  # a login that ends then ends soon
UNBELIEVED = ("device.contested", "node.contested", "node.report_refused")
EVENTS_MAX = 1_000  # of each of those types that are read


def of_platform(client: Client, now_us: int = 0) -> Iterator[Check]:
    """Of the platform that this client asks, as far as its person may see. `now_us`: since 1970, 0 for
    this machine's clock.
    """
    now_us = now_us or time.time_ns() // 1_000
    looks: tuple[Callable[[], Iterable[Check]], ...] = (
        lambda: [check_tokens(client.tokens())],
        lambda: [check_join_tokens(client.join_tokens())],
        lambda: check_services(client.users()),
        lambda: [check_publishers(client.publishers(), now_us)],
        lambda: [check_nodes(client.nodes())],
        lambda: [check_reports(_unbelieved(client, now_us - DAY_US))],
    )
    yield check_config(config_file())
    yield check_door(client.url)
    for look in looks:
        try:
            yield from look()
        except ClientError as error:
            yield warning("platform", str(error), "ask as an admin: headrace context use NAME")


def check_config(config: Path) -> Check:
    """Whether others can use the tokens that this person's command line keeps."""
    try:
        mode = config.stat().st_mode
    except OSError:
        return ok("config", "no tokens are kept here")
    if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        return failed("config", f"others may use the tokens in {config}", f"chmod 600 {config}")
    return ok("config", f"{config}: its owner's alone")


def check_door(url: str) -> Check:
    """Whether tokens cross a network in clear."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in LOOPBACK:
        return ok("door", url)
    fix = "headrace up --tls-self-signed, or --tls-cert and --tls-key"
    return failed("door", f"{url}: tokens and output cross the network in clear", fix)


def check_tokens(tokens: Sequence[TokenRow]) -> Check:
    """Whether an API token is good for ever."""
    endless = [f"{row.user}/{row.name or row.token}" for row in tokens if not row.expires_at_us]
    if endless:
        fix = "headrace token revoke ID, and create it anew with --expires and --scope"
        return warning("tokens", f"{len(endless)} never expire: {named(endless)}", fix)
    return ok("tokens", f"{len(tokens)} that expire, none that does not")


def check_join_tokens(tokens: Sequence[JoinTokenRow]) -> Check:
    """Whether machines may become nodes without anybody's look at them."""
    unseen = [row.token for row in tokens if row.state == "open" and row.auto_approve]
    if unseen:
        fix = "headrace node token --revoke ID when the machines have joined"
        return warning("joining", f"whoever has {named(unseen)} joins unseen", fix)
    return ok("joining", "every machine that joins is approved by somebody")


def check_services(users: Sequence[UserRow]) -> Iterator[Check]:
    """Which services ask in the name of people."""
    acting = [row for row in users if row.acts_for]
    if fleet := [row.user for row in acting if not row.home]:
        fix = "headrace user set NAME --service --acts-for -p PROJECT, one for each project"
        found = f"{named(fleet)} may ask in the name of anybody in the fleet"
        yield warning("services", found, fix)
    if own := [row.user for row in acting if row.home]:
        fix = (
            "headrace user set NAME --service -p PROJECT, without --acts-for where it is not needed"
        )
        found = f"{named(own)} may ask in the name of people of their own scope"
        yield warning("services", found, fix)
    if not acting:
        yield ok("services", "none asks in the name of people")


def check_publishers(publishers: Sequence[PublisherRow], now_us: int) -> Check:
    """Whose login of the bus ends soon, or never."""
    called = [(row.expires_at_us, f"{row.project}/{row.name}") for row in publishers]
    if endless := [name for end_us, name in called if not end_us]:
        fix = "headrace publisher renew NAME -p PROJECT gives one of 30 days"
        return warning("logins", f"those of {named(endless)} never end", fix)
    if ending := [name for end_us, name in called if end_us < now_us + SOON_US]:
        fix = "headrace publisher renew NAME -p PROJECT, or delete who is needed no more"
        return warning("logins", f"those of {named(ending)} end within 7 days, or have ended", fix)
    return ok("logins", f"of {len(publishers)} publishers, none ends within 7 days")


def check_nodes(nodes: Sequence[NodeRow]) -> Check:
    """Whether nodes keep jobs apart, as they say themselves."""
    fix = "run its agent as root, or allow user namespaces (headrace doctor --security, there)"
    none = [row for row in nodes if row.isolation.startswith(UNISOLATED)]
    everybodys = isolation_text(UNISOLATED, EVERYBODY)
    if shared := [row.node for row in none if row.isolation == everybodys]:
        return failed("nodes", f"nothing keeps everybody's jobs apart on {named(shared)}", fix)
    if none:
        found = f"{named([row.node for row in none])} isolate none, and run one user's jobs or none"
        return warning("nodes", found, fix)
    return ok("nodes", f"all {len(nodes)} keep jobs apart")


def check_reports(unbelieved: Sequence[Happening]) -> Check:
    """Whether nodes said what the log contradicts."""
    if unbelieved:
        said = Counter(f"{event.type} of {event.stream}" for event in unbelieved)
        counted = [f"{what} ({count})" if count > 1 else what for what, count in said.items()]
        fix = "look at these machines: headrace events --type node.report_refused --since 1d"
        return warning("reports", f"in the last day: {named(counted)}", fix)
    return ok("reports", "no node was contradicted by the log in the last day")


def _unbelieved(client: Client, since_us: int) -> list[Happening]:
    return [
        event
        for type_prefix in UNBELIEVED
        for event in islice(client.events(type_prefix=type_prefix, since_us=since_us), EVENTS_MAX)
    ]
