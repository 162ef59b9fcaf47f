"""The checks of the machine itself: isolation, clock, ports, disk, and the way to the platform."""

from __future__ import annotations

import ctypes
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from headrace.doctor import Check, failed, ok, warning
from headrace.events.accounts import BY_USER_NAMESPACES, EVERYBODY, UNISOLATED
from headrace.node_agent.isolation.accounts import (
    COUNT,
    ETC,
    OWNER,
    Accounts,
    is_reserved,
    lack_of,
)
from headrace.node_agent.isolation.cgroups import PROCESSES
from headrace.telemetry.disk import used_permille

UNLIMITED = "neither memory nor CPU of jobs is limited"
PLAYED = " on a node that joins (not on those that headrace up plays)"
CONTROLLERS = ("cpu", "memory", "pids")
DISK_PERMILLE_MAX = 900  # from there on the node takes no work
DISK_PERMILLE_WARNED = 800
CONNECT_S = 5.0
UNSYNCHRONISED = 5  # what adjtimex returns then, TIME_ERROR
TIMEX_BYTES = 256  # no smaller than the kernel's struct timex
PORTS = {"https": 443, "http": 80, "tls": 4222, "nats": 4222}


def check_cgroups(root: Path, choice: str) -> Check:
    """What limits memory and CPU of jobs, on a node of its own: those that `headrace up` plays limit
    nothing. `root` is `/`, or a stand-in; `choice` is what the agent is told to use.
    """
    if choice == PROCESSES:
        return warning("cgroup", f"not used: {UNLIMITED}", "unset HEADRACE_NODE_ISOLATION")
    mount = root / "sys/fs/cgroup"
    unified = mount / "cgroup.controllers"
    systemd = " with systemd" if (root / "run/systemd/system").exists() else ""
    if unified.exists():
        had = unified.read_text(encoding="ascii").split()
        missing = [name for name in CONTROLLERS if name not in had]
        if missing:
            fix = f"let the machine (or the container's host) delegate {' '.join(missing)}"
            return warning("cgroup", f"v2{systemd}, without {' '.join(missing)}", fix)
        return ok("cgroup", f"v2{systemd}: limits hold{PLAYED}")
    fix = "boot with systemd.unified_cgroup_hierarchy=1"
    if (mount / "memory").exists():
        return warning("cgroup", f"v1{systemd}: limits hold{PLAYED}, pressure is not seen", fix)
    return warning("cgroup", f"none: {UNLIMITED}", fix)


def check_accounts(accounts: Accounts, etc: Path = ETC) -> Check:
    """As whom jobs run, and whose."""
    if accounts.isolation == BY_USER_NAMESPACES:
        return ok("accounts", "the agent's own, in user namespaces")
    if accounts.isolation == UNISOLATED:
        whose = {"": "nobody's", EVERYBODY: "everybody's"}.get(accounts.trusted, accounts.trusted)
        found = f"none: jobs see this account's files and processes; {whose} jobs run here"
        fix = "run the agent as root, or allow user namespaces (sysctl user.max_user_namespaces)"
        return warning("accounts", found, fix)
    first, last = accounts.first, accounts.first + COUNT - 1
    if lack := lack_of(first, etc=etc):
        return failed("accounts", lack, "HEADRACE_NODE_ACCOUNTS=FIRST on every node of the fleet")
    if not is_reserved(first, etc):
        fix = f"echo {OWNER}:{first}:{COUNT} | tee -a /etc/subuid /etc/subgid"
        found = f"{first} to {last}; useradd and others do not know that they are taken"
        return warning("accounts", found, fix)
    return ok("accounts", f"{first} to {last}, one for each user of each project")


def check_clock(adjtimex: Callable[[], int]) -> Check:
    """Whether the clock is kept by NTP; `adjtimex` is the kernel's call."""
    state = adjtimex()
    if state == UNSYNCHRONISED:
        fix = "systemctl enable --now systemd-timesyncd (or chronyd)"
        return warning("clock", "is not synchronised; a node that is 300 s off cannot join", fix)
    return ok("clock", "synchronised" if state >= 0 else "not known here")


def kernel_adjtimex() -> int:
    """The state of the kernel's clock; below 0 when it cannot be asked. Sets nothing."""
    library = ctypes.CDLL(None)
    return int(library.adjtimex(ctypes.create_string_buffer(TIMEX_BYTES)))


def check_ports(first: int, last: int, root: Path) -> Check:
    """Whether the ports that attempts use are free, and nobody else is given them."""
    busy = [port for port in range(first, last + 1) if not _is_free(port)]
    span = f"{first}-{last}"
    if len(busy) * 2 > last - first:
        fix = "set HEADRACE_NODE_PORTS to a range that nothing else uses"
        return failed("ports", f"{len(busy)} of {span} are taken", fix)
    given = root / "proc/sys/net/ipv4/ip_local_port_range"
    if given.exists():
        low, high = (int(word) for word in given.read_text(encoding="ascii").split())
        reserved = _reserved(root)
        if low <= last and first <= high and not _covers(reserved, first, last):
            all_ = ",".join(filter(None, (reserved, span)))
            fix = f"sysctl -w net.ipv4.ip_local_reserved_ports={all_} (and in /etc/sysctl.d)"
            found = f"{span} overlap those of outgoing connections ({low}-{high})"
            return warning("ports", found, fix)
    return ok("ports", f"{span}" + (f", {len(busy)} taken" if busy else ""))


def check_disk(folder: Path) -> Check:
    """Whether there is room where attempts and their logs are kept."""
    where = next(path for path in (folder, *folder.parents) if path.exists())
    permille, size_bytes = used_permille(where), shutil.disk_usage(where).total
    found = f"{permille / 10:.0f} % of {size_bytes / 1e9:.0f} GB used at {where}"
    fix = f"make room at {where}, or keep the node elsewhere (--dir)"
    if permille >= DISK_PERMILLE_MAX:
        return failed("disk", f"{found}: the node takes no work", fix)
    if permille >= DISK_PERMILLE_WARNED:
        return warning("disk", found, fix)
    return ok("disk", found)


def check_way(urls: dict[str, str]) -> Iterator[Check]:
    """Whether the platform's doors, by name, are reached from here. Nothing is sent."""
    for name, url in urls.items():
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
        try:
            socket.create_connection((host, port), timeout=CONNECT_S).close()
        except OSError as error:
            fix = f"let this machine dial out to {host}:{port} (firewall, proxy, name)"
            yield failed(name, f"{host}:{port}: {error.strerror or error}", fix)
        else:
            yield ok(name, f"{host}:{port} answers")


def _reserved(root: Path) -> str:
    """The ports that the kernel gives to nobody, as it writes them: `7400,20000-20999`."""
    file = root / "proc/sys/net/ipv4/ip_local_reserved_ports"
    return file.read_text(encoding="ascii").strip() if file.exists() else ""


def _covers(spans: str, first: int, last: int) -> bool:
    """Whether all of these ports are among them. The kernel joins spans that touch."""
    ends = (span.partition("-") for span in filter(None, spans.split(",")))
    return any(int(low) <= first and last <= int(high or low) for low, _, high in ends)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
