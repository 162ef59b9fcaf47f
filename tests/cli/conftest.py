from collections.abc import AsyncIterator

import pytest
from tests.gateway.world import World, served_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with served_world() as served:
        yield served
