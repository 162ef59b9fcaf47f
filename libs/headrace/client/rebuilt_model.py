"""What the gateway answers when it folded the log again."""

from __future__ import annotations

import msgspec


class Rebuilt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Folded up to `position`, which took so long; `differs` names what had not been the same."""

    position: int
    took_us: int = 0
    differs: list[str] = []
