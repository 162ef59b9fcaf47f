"""Which workspaces are used, as far as that is seen: what of it is put on record, and when.

Rule: nothing is recorded of a workspace that is in use. Whatever was not watched counts as use: a
GPU that no sample is heard of, or a time in which no gateway said who came.
"""

from __future__ import annotations

import msgspec

from headrace.events.workspaces import BUSY_PERMILLE_MIN, WorkspaceSeen
from headrace.metrics.state import Workspace

UNHEARD_US_MAX = 10_000_000  # after which samples, or a gateway's word, are missing


class Watch(msgspec.Struct, kw_only=True):
    """What is seen of one attempt of a workspace. `values` are what its programs last reported."""

    attempt: int
    watched_us: int
    used_at_us: int = 0
    busy_at_us: int = 0
    busy_permille: int = 0
    sampled_us: dict[tuple[str, str], int] = {}  # by node and device
    values: dict[str, str] = {}

    def use(self, now_us: int) -> None:
        """Somebody is there, or a program says something new."""
        self.used_at_us, self.busy_permille = now_us, 0

    def sample(self, device: tuple[str, str], permille: int, now_us: int) -> None:
        """One of its GPUs, by node and name, is so busy."""
        self.sampled_us[device] = now_us
        if permille >= BUSY_PERMILLE_MIN:
            self.busy_at_us, self.busy_permille = now_us, 0
        else:
            self.busy_permille = max(self.busy_permille, permille)

    def look(self, workspace: Workspace, gateway_heard_us: int, now_us: int) -> None:
        """Begin anew where something was not watched."""
        heard = [self.sampled_us.get(device, self.watched_us) for device in workspace.devices]
        if min((gateway_heard_us, *heard)) < now_us - UNHEARD_US_MAX:
            self.watched_us = now_us

    def seen(self, job: str, workspace: Workspace, now_us: int) -> WorkspaceSeen:
        """What can be said now."""
        return WorkspaceSeen(
            job=job,
            project=workspace.project,
            attempt=self.attempt,
            at_us=now_us,
            watched_us=self.watched_us,
            used_at_us=self.used_at_us,
            busy_at_us=self.busy_at_us,
            busy_permille=self.busy_permille,
        )
