"""What the gateway answers about folders that travel, and about what jobs leave behind."""

from __future__ import annotations

import msgspec


class BundleAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is kept of a folder that travels: its name, and which contents are missing (their
    SHA-256). With none missing it is kept.
    """

    bundle: str = ""
    missing: list[str] = []


class Left(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is kept of one worker: `tree` names it, `manifest` (its bytes) says which files."""

    rank: int
    tree: str
    manifest: bytes


class OutputsAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a job left behind: that of its last attempt's workers, in order of their ranks."""

    job: str
    attempt: int = 0
    left: list[Left] = []
