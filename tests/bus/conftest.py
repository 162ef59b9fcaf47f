"""Connections that end with their test."""

from __future__ import annotations

import pytest

from headrace.bus.nats import NatsBus


@pytest.fixture
async def connect():
    """Makes connections: `await connect(url, **options of NatsBus.connect)`."""
    made = []

    async def one(url, **options):
        bus = await NatsBus.connect(url, **options)
        made.append(bus)
        return bus

    yield one
    for bus in made:
        await bus.close()
