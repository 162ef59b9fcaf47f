"""Where workspaces are: each at a host name of its own, so that browsers keep them apart.

Rule: a workspace's pages run whatever is in the workspace, and browsers keep apart what has another
origin: so no workspace shares one with the gateway or with another workspace. Names below `localhost`
are the browser's own machine (RFC 6761 §6.3); to be reached from elsewhere takes a domain, below
which there is nothing else.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

LOCAL = "localhost"

_DOMAIN = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DOMAIN_CHARACTERS_MAX = 189  # with a job's id before it a host name has at most 253


@dataclass(frozen=True)
class Places:
    """The host names of workspaces. Without a `domain` they have one on this machine alone.

    Raises `ValueError` for what is no domain.
    """

    domain: str = ""

    def __post_init__(self) -> None:
        is_long = len(self.domain) > _DOMAIN_CHARACTERS_MAX
        if self.domain and (is_long or not _DOMAIN.fullmatch(self.domain)):
            raise ValueError(f"{self.domain!r} is no domain, as work.example.com is one")

    def job_at(self, host: str) -> str | None:
        """The job at the host of a request, with or without its port; None: the gateway is there."""
        name = _without_port(host).lower()
        for domain in (LOCAL, self.domain):
            if domain and name.endswith(f".{domain}"):
                return name.removesuffix(f".{domain}")
        return None

    def host_of(self, job: str, asked_at: str) -> str:
        """Where the job is for somebody who reaches the gateway at the host `asked_at`; empty when
        their browser would reach it nowhere.
        """
        domain = LOCAL if _is_this_machine(_without_port(asked_at)) else self.domain
        return f"{job}.{domain}" if domain else ""


def _without_port(host: str) -> str:
    return host.partition("]")[0].removeprefix("[") if host[:1] == "[" else host.partition(":")[0]


def _is_this_machine(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.lower() == LOCAL
