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
`headrace.client.publisher`. In a worker, `report`, `rank` and what is beside them in
`headrace.client.worker`, which need the standard library alone: all else is loaded when it is asked
for.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.asynchronous import AsyncClient
    from headrace.client.client import Client
    from headrace.client.errors import ClientError, NotFound, Refused, Unreachable
    from headrace.client.model import (
        Answer,
        Description,
        Happening,
        JobRow,
        LogPiece,
        NodeRow,
        ProjectRow,
    )
    from headrace.client.worker import (
        checkpoint_requested,
        local_rank,
        progress,
        rank,
        report,
        stop_reason,
        world_size,
    )

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
    "checkpoint_requested",
    "local_rank",
    "progress",
    "rank",
    "report",
    "stop_reason",
    "world_size",
]
_MODULES = {
    "AsyncClient": "asynchronous",
    "Client": "client",
    **dict.fromkeys(("ClientError", "NotFound", "Refused", "Unreachable"), "errors"),
}


def __getattr__(name: str) -> Any:
    """A name, once somebody asks for it."""
    if name not in __all__:
        raise AttributeError(name)
    is_function = name.islower()  # and so a worker's
    module = "worker" if is_function else _MODULES.get(name, "model")
    return getattr(importlib.import_module(f"headrace.client.{module}"), name)
