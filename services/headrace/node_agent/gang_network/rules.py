"""What should hold on this node, and how nftables is told.

Rule: pure. Ports belong to workers of gangs alone: placement gives them of the node's own range. What
comes over the loopback is the machine's own and passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import NamedTuple

from headrace.bus.agents import Assignment

Known = Mapping[str, tuple[str, ...]]  # the IP addresses of each peer


class Part(NamedTuple):
    """One worker's ports, and where its gang's nodes are."""

    first: int
    last: int
    peers: tuple[str, ...]


def part_of(assignment: Assignment) -> Part | None:
    """The worker's part; None for one that is no member of a gang."""
    if not assignment.peers or not assignment.ports:
        return None
    last = assignment.port + assignment.ports - 1
    return Part(assignment.port, last, assignment.peers)


def parts_of(assignments: Iterable[Assignment]) -> tuple[Part, ...]:
    """Those of all workers here, in order."""
    found = {part for assignment in assignments if (part := part_of(assignment)) is not None}
    return tuple(sorted(found))


def ruleset(table: str, parts: Collection[Part], known: Known) -> str:
    """The table as a whole, in place of what it was; no table where there are no parts. A part is
    left out of which a peer is not known.
    """
    gone = [f"add table inet {table}", f"delete table inet {table}", ""]
    if not parts:
        return "\n".join(gone)
    lines = [f"table inet {table} {{", "chain gangs {"]
    lines += ["type filter hook input priority filter; policy accept;", 'iif "lo" accept']
    for part in parts:
        lines += _rules(part, known) if is_known(part, known) else []
    return "\n".join([*gone, *lines, "}", "}", ""])


def is_known(part: Part, known: Known) -> bool:
    """Whether it is known where all of its peers are."""
    return all(known.get(peer) for peer in part.peers)


def _rules(part: Part, known: Known) -> list[str]:
    addresses = [ip_address(at) for peer in part.peers for at in known[peer]]
    ports = f"dport {part.first}-{part.last}"
    rules = []
    for family, version in (("ip", 4), ("ip6", 6)):
        theirs = sorted(str(at) for at in set(addresses) if at.version == version)
        if theirs:
            came = f"{family} saddr {{ {', '.join(theirs)} }}"
            rules += [f"{came} tcp {ports} accept", f"{came} udp {ports} accept"]
    return [*rules, f"tcp {ports} reject with tcp reset", f"udp {ports} reject"]
