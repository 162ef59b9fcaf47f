"""A login of the bus for what a test plays: no service of a real platform may say and hear all."""

from __future__ import annotations

from pathlib import Path

from headrace.bus.credentials import Permissions, new_creds
from headrace.embedded.layout import Layout

EVERYTHING = Permissions(publish=(">",), subscribe=(">",))


def creds_for_all(layout: Layout) -> Path:
    """A credentials file for a platform's bus that allows everything."""
    path = layout.secrets / "test.creds"
    if not path.exists():
        account = (layout.secrets / "account.seed").read_text(encoding="ascii")
        path.write_text(new_creds(account, "test", EVERYTHING))
        path.chmod(0o600)
    return path
