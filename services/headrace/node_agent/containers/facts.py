"""What a container engine is and offers, as it matters for starting workers."""

from __future__ import annotations

import msgspec

OUTPUT_DRIVER = "local"  # keeps a container's output until it is taken


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One engine. `init` tells whether it has a first process that reaps; `cdi` the qualified names
    of devices that it knows how to show; `groups` what makes its control groups (cgroupfs, systemd);
    `remapped`: its root is not the host's; `keeps_output`: whether it has
    the log driver by which it does so until that is taken; `limits`: with which
    version of control groups it limits memory, CPU and tasks (cgroup1, cgroup2; "": not all of them);
    `seccomp`: whether it keeps containers from the system calls that its profile denies;
    `device_files` are those that all GPUs of a vendor share, and those of RDMA.
    """

    name: str
    version: str
    init: bool = False
    runtimes: tuple[str, ...] = ()
    live_restore: bool = False
    groups: str = ""
    remapped: bool = False
    keeps_output: bool = True
    limits: str = ""
    seccomp: bool = False
    cdi: frozenset[str] = frozenset()
    device_files: dict[str, tuple[str, ...]] = {}

    @property
    def lack(self) -> str:
        """Why it runs no jobs; empty if it does."""
        if self.remapped:
            return f"{self.title} is rootless: its users are not the host's"
        if not self.keeps_output:
            return f"{self.title} has no log driver `{OUTPUT_DRIVER}` to keep output with: it is not Docker's"
        return ""

    @property
    def title(self) -> str:
        """For people: `docker 28.2.2`."""
        return f"{self.name} {self.version}".strip()
