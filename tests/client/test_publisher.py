"""A publisher's way to the bus."""

import pytest

from headrace.client import publisher
from headrace.client.errors import Unreachable
from headrace.client.publisher import Publisher
from headrace.testing.ports import free_port


async def test_a_bus_that_is_not_there_is_told_in_a_line(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(publisher, "CONNECT_S_MAX", 0.2)
    credential = tmp_path / "etl.creds"
    credential.write_text("")
    url = f"nats://127.0.0.1:{free_port()}"

    with pytest.raises(Unreachable, match=f"^{url}: .*Connect call failed"):
        async with Publisher(url, credential, "ads"):
            pass

    assert all(record.exc_info is None for record in caplog.records)
