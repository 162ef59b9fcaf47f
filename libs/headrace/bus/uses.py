"""What a gateway says of the workspaces that people use through it."""

from __future__ import annotations

import msgspec

JOBS_MAX = 5_000  # in one message; the others are in the next


class Uses(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The workspaces that were used since the gateway last said so."""

    jobs: tuple[str, ...] = ()
