"""What goes wrong at the gateway, as people are told: a status code and one line.

Rule: every error is an `Answer` with `accepted: false`; nobody is ever shown a stack trace.
"""

from __future__ import annotations

from headrace.client.model import Answer
from headrace.events import Refusal


class GatewayError(Exception):
    """Something the asker can be told about. `status` is HTTP's; `retry_after_s` says when to ask
    again, if that is of use.
    """

    status = 500
    retry_after_s = 0

    def answer(self) -> Answer:
        """What is sent."""
        return Answer(accepted=False, message=str(self))


class BadRequest(GatewayError):
    """What was sent cannot be understood."""

    status = 400

    def __init__(self, field: str, value: str, rule: str, instead: str = "") -> None:
        self.refusal = Refusal(field=field, value=value, rule=rule, instead=instead)
        super().__init__(str(self.refusal))

    def answer(self) -> Answer:
        return refused(self.refusal)


class Unauthorized(GatewayError):
    """The token is missing or not ours."""

    status = 401


class Forbidden(GatewayError):
    """Who asks is known, and may not do this."""

    status = 403


class Denied(Forbidden):
    """The table of access says no."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(str(refusal))

    def answer(self) -> Answer:
        return refused(self.refusal)


class TooMany(GatewayError):
    """More requests than are taken."""

    status = 429

    def __init__(self, line: str | Refusal, retry_after_s: int = 1) -> None:
        super().__init__(str(line))
        self.refusal = line if isinstance(line, Refusal) else None
        self.retry_after_s = retry_after_s

    def answer(self) -> Answer:
        return super().answer() if self.refusal is None else refused(self.refusal)


class Full(GatewayError):
    """There is no room for more."""

    status = 507

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(str(refusal))

    def answer(self) -> Answer:
        return refused(self.refusal)


class NotFound(GatewayError):
    """There is nothing of that name."""

    status = 404


class Ambiguous(GatewayError):
    """Several things have that name."""

    status = 409


class NoBus(GatewayError):
    """The gateway has lost the bus, so that nobody can be asked."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the gateway is not connected to the bus (NATS), and nothing was asked")


class NoAnswer(GatewayError):
    """Nobody answered in time."""

    status = 504

    def __init__(self, key: str) -> None:
        super().__init__(
            f"no answer in time; what became of it is unknown: repeat it with key {key}"
        )
        self.key = key

    def answer(self) -> Answer:
        return Answer(accepted=False, message=str(self), key=self.key)


class NotNow(GatewayError):
    """Who was asked can neither take nor refuse it for now, and says why."""

    status = 503

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self._answer = answer
        self.retry_after_s = answer.again_after_s

    def answer(self) -> Answer:
        return self._answer


class NotReady(GatewayError):
    """The platform is starting, or its log cannot be reached."""

    status = 503
    retry_after_s = 1


def refused(refusal: Refusal) -> Answer:
    """The answer of a refusal made at this door."""
    fields = {name: getattr(refusal, name) for name in ("field", "rule", "value", "instead")}
    return Answer(
        accepted=False,
        message=str(refusal),
        refusal={name: value for name, value in fields.items() if value},
    )
