"""The Python client: HTTP to a gateway and nothing else, small enough for a laptop.

    from headrace.client import AsyncClient

    async def main():
        async with AsyncClient.from_config() as client:  # HEADRACE_URL, HEADRACE_TOKEN, config file
            answer = await client.submit({"name": "hello", "command": ["true"]}, key="hello-1")
            async for event in client.events(job=answer.job, follow=True):
                print(event.position, event.type)
                if event.type.startswith("job.finished."):
                    break

`Client` is the same without `await`. A request is repeated under its key until it is answered, so
that `submit` with a key of yours is one job however often it runs. On the bus:
`headrace.client.publisher`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from headrace.client.client import Client
from headrace.client.connection import ClientError, NotFound, Refused, Unreachable
from headrace.client.model import (
    Answer,
    Description,
    Happening,
    JobRow,
    LogPiece,
    NodeRow,
    ProjectRow,
)

if TYPE_CHECKING:
    from headrace.client.asynchronous import AsyncClient

__all__ = [
    "Answer",
    "AsyncClient",
    "Client",
    "ClientError",
    "Description",
    "Happening",
    "JobRow",
    "LogPiece",
    "NodeRow",
    "NotFound",
    "ProjectRow",
    "Refused",
    "Unreachable",
]


def __getattr__(name: str) -> Any:
    """`AsyncClient`, once somebody asks for it: the command line never does."""
    if name == "AsyncClient":
        return importlib.import_module("headrace.client.asynchronous").AsyncClient
    raise AttributeError(name)
