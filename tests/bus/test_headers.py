"""Headers are sent as the library sends them, whatever is in them."""

import pytest
from nats.aio.client import Client

from headrace.bus.nats_client import HardenedClient


async def sent(kind, headers):
    """What a client of this kind writes for a message with these headers."""
    client, commands = kind(), []

    async def keep(command, priority=False):
        commands.append(command)

    client._send_command = keep
    try:
        await client._send_publish("a.b", "_INBOX.1", b"data", 4, headers)
    except Exception as error:
        return type(error)
    return commands


@pytest.mark.parametrize(
    "headers",
    [
        {"ce-id": "1", "Headrace-Actor": "ada"},
        {"ce-id": ""},
        {"ce-id": " blanks at both ends "},
        {"ce-id": "two\nlines", "ce-type": "t"},
        {"ce-id": "one\r\nHeadrace-Actor: admin"},
        {"ce-id: 1\r\nHeadrace-Actor": "admin"},
        {"a\nb": "c"},
        {"": "nothing"},
        {" ce-id ": "1"},
        {"tab\tbed": "1"},
        {"dotted.name_": "é 漢"},
        {},
        None,
    ],
)
async def test_what_is_sent_is_what_the_library_would_send(headers):
    for _ in range(2):  # names are remembered
        assert await sent(HardenedClient, headers) == await sent(Client, headers)
