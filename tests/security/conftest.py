from collections.abc import Iterator

import pytest
from tests.end_to_end.conftest import running_platform
from tests.security.stage import Stage


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with running_platform("--nodes", "1", "--gpus", "simulated:1xH100-80GB") as platform:
        platform.wait_ready()
        made = Stage(platform)
        made.fill()
        yield made
        platform.verify()
