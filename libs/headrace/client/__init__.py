"""The Python client: HTTP to a gateway and nothing else, small enough for a laptop.

from headrace.client import Client

client = Client("http://127.0.0.1:7400", token)
job = client.submit({"name": "hello", "command": ["true"]}).job
for event in client.events(job=job, follow=True): ...
"""

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

__all__ = [
    "Answer",
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
