"""What can go wrong with what a gateway is asked."""

from __future__ import annotations

from headrace.client.model import Answer


class ClientError(Exception):
    """The request failed, and the line says why."""


class Unreachable(ClientError):
    """Nobody answers at the gateway's address, or not in time."""


class Closed(ClientError):
    """The stream was ended on this side."""


class NotFound(ClientError):
    """There is nothing of that name."""


class Refused(ClientError):
    """The platform said no. `answer` has the refusal in its parts, and the log's position."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.message or "refused")
