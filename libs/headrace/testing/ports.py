"""Ports for servers that are started later, or again: none that the kernel hands out by itself."""

from __future__ import annotations

import random
import socket

BELOW_EPHEMERAL = range(11_000, 20_000)


def free_port() -> int:
    """A port at which nothing listens, and which nobody is given by chance until it is used."""
    while True:
        port = random.choice(BELOW_EPHEMERAL)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
