"""Imports nats-py without aiohttp, which it wants for WebSockets only: we never speak those.

Rule: imported before anything else of nats-py, in our own processes only: it takes a third off the
start of each, and 10 MB. Whoever needs aiohttp itself imports it afterwards as usual.
"""

from __future__ import annotations

import sys

if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment] # an import fails, as if not installed
    try:
        import nats.aio.transport  # noqa: F401 - for its effect
    finally:
        del sys.modules["aiohttp"]
