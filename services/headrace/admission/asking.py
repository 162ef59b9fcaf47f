"""How a request's body becomes a fact: read as one Struct, judged by it, and told on as one fact.

Rule: whoever adds a verb writes its Struct with `refusal`, and one function under `@receives`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from headrace.bus.subjects import FLEET
from headrace.documents.refusing import shown
from headrace.events import Fact, Refusal
from headrace.runtime.service import Receive, Request, Runtime


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""

    def refusal(self) -> Refusal | None:
        """What is wrong with it."""
        return None


A = TypeVar("A", bound=Asked)


def receives(
    kind: type[A], of_fleet: str = ""
) -> Callable[[Callable[[A, Request], Fact | Refusal]], Receive]:
    """Receives bodies of this kind. `of_fleet` names whose verb it is that has no project: what
    comes through a project's door is refused.
    """

    def receiver(tell: Callable[[A, Request], Fact | Refusal]) -> Receive:
        async def receive(request: Request, runtime: Runtime) -> Fact | Refusal:
            del runtime
            if of_fleet and request.project != FLEET:
                rule = f"{of_fleet} belong to the whole fleet"
                return Refusal(field="project", value=request.project, rule=rule, instead=FLEET)
            asked = decoded(request.body, kind)
            return asked if isinstance(asked, Refusal) else tell(asked, request)

        return receive

    return receiver


def decoded(body: bytes, kind: type[A]) -> A | Refusal:
    """The body, if it is well formed."""
    try:
        asked = msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        names = ", ".join(kind.__struct_fields__) or "nothing in it"
        rule = shown(error) or "cannot be read"
        return Refusal(field="request", rule=rule, instead=f"a JSON object with {names}")
    return asked.refusal() or asked


def line(text: str, length_max: int) -> str:
    """A text that somebody else wrote, as one line that is safe to keep and show."""
    return "".join(c if c.isprintable() else "?" for c in text[:length_max])
