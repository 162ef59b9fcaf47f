"""What the gateway answers about webhooks."""

from __future__ import annotations

import msgspec


class WebhookRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One webhook: of which `events` (types or their beginnings) it is told, and up to which position
    it was, as far as that was recorded. `state` is failing or stopped, or nothing, `why` the reason.
    """

    name: str
    project: str
    url: str = ""
    events: list[str] = []
    reached: int = 0
    state: str = ""
    why: str = ""
