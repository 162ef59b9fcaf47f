"""`status` of a platform by its address: what its gateway knows of it."""

from __future__ import annotations

import time

from headrace.bus.presence import SAY_S
from headrace.cli.exits import DONE, FAILED, printable
from headrace.cli.output import gpus, moment, show, size, table
from headrace.client.client import Client
from headrace.client.model import InstanceRow, Status

DECIDING = ("admission", "quota", "placement", "metrics")  # each has a leader, or nothing happens
INSTANCES = ("SERVICE", "INSTANCE", "", "AT", "BEHIND", "MEMORY")
DISK_PERMILLE_WARNED = 950
SETTLED_S_MAX = SAY_S + 1.0  # until everybody there has been heard
POLL_S = 0.1
SOON_US = 14 * 86_400_000_000  # a certificate that ends within this is worth a word


def remote_status(*, url: str, token: str, project: str, check: bool, output: str) -> int:
    """Show it; with `check` the exit code says whether all is well."""
    client = Client.from_config(url=url, token=token, project=project)
    status = _settled(client)
    wrongs = list(_wrongs(status))
    if output in ("json", "yaml"):
        show(status, output)
    else:
        for line in _lines(client.url, status):
            print(printable(line))
        print()
        table(INSTANCES, [_cells(row) for row in status.instances], wide=output == "wide")
        for wrong in wrongs:
            print(printable(f"! {wrong}"))
    return FAILED if check and wrongs else DONE


def _settled(client: Client) -> Status:
    """As it is once every instance had time to be heard: a gateway that has just started knows none, and a
    service whose leader has gone is soon led by another.
    """
    until_s = time.monotonic() + SETTLED_S_MAX
    while True:
        status = client.status()
        if not _unled(status) or time.monotonic() > until_s:
            return status
        time.sleep(POLL_S)


def _lines(url: str, status: Status) -> list[str]:
    jobs = ", ".join(f"{count} {state}" for state, count in status.jobs.items()) or "no live jobs"
    nodes = ", ".join(f"{count} {state}" for state, count in status.node_states.items()) or "none"
    bus = status.bus.url or "at an address that it was not told"
    bus += ", connected" if status.bus.connected else ", not connected"
    ends = f" · certificate until {moment(status.certificate_ends_us)}"
    return [
        f"Headrace {status.version}    {url}     at {status.position}",
        f"  bus {bus} · metrics {status.metrics or 'at an address that it was not told'}",
        f"  nodes {nodes} · {gpus(status.held_milli)} of {status.gpus} GPUs held · {jobs}",
        f"  disk {status.disk_permille / 10:.0f} % full"
        + (ends if status.certificate_ends_us else ""),
    ]


def _cells(row: InstanceRow) -> list[str]:
    leads = f"leads (epoch {row.epoch})" if row.leading else "stands by"
    role = "serves" if row.service == "gateway" else leads
    behind = f"{row.lag} events" if row.lag else "0"
    return [row.service, row.instance, role, str(row.position), behind, size(row.memory_bytes)]


def _wrongs(status: Status) -> list[str]:
    """What an operator should see to."""
    found = [f"nobody leads {service}" for service in _unled(status)]
    if not status.bus.connected:
        found.append("the gateway is not connected to the bus")
    if status.disk_permille >= DISK_PERMILLE_WARNED:
        found.append(
            f"the gateway's disk is {status.disk_permille / 10:.0f} % full: make room there, for on a full"
            " one nothing is taken"
        )
    if len({row.files for row in status.instances if row.files}) > 1:
        found.append("gateways keep files in different folders: HEADRACE_FILES_DIR is one for all")
    if 0 < status.certificate_ends_us < time.time_ns() // 1000 + SOON_US:
        found.append(f"the certificate ends at {moment(status.certificate_ends_us)}")
    return found


def _unled(status: Status) -> list[str]:
    leaders = {row.service for row in status.instances if row.leading}
    return [service for service in DECIDING if service not in leaders]
