"""The shape of an event.

Rule: an event type is declared once, here in `headrace.events`, as a frozen Struct tagged
`noun.verb.v1`. It is a *fact* (something a shell learned) or a *decision* (an output of
`decide` and of nothing else). Its bytes are msgspec JSON with defaults omitted; fields are never
reordered, never floats, integers stay below 2**53.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

INTEGER_MAX = 2**53  # larger integers lose digits in readers that parse JSON numbers as doubles


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every event is: subclasses set `kind`, `owner` and the template of their `stream`."""

    kind: ClassVar[Literal["fact", "decision"]]
    owner: ClassVar[str]  # the service that may append it; "*" means every service
    stream: ClassVar[str]  # a format string over the event's own fields
    public: ClassVar[
        tuple[str, ...]
    ] = ()  # fields a project may see on `headrace.event.<project>.…`
    is_record: ClassVar[bool] = False  # nothing is decided on it: in the log it is answered


class Fact(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Something a service's shell learned from outside: recorded first, decided on later."""

    kind: ClassVar[Literal["fact", "decision"]] = "fact"


class Decision(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """An output of a service's pure `decide(state, now)`."""

    kind: ClassVar[Literal["fact", "decision"]] = "decision"


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the log keeps beside an event's data.

    `causation` is the position of the event this one answers (0: none). `correlation` is the job
    it belongs to. `request_source` and `request_key` identify, within the project, the
    request it records or answers. Decisions also carry the `basis` (position of the state decided on),
    `decided_at_us` (the clock reading used), and their `index` of `count` in that one decision.
    """

    actor: str = ""
    project: str = ""
    causation: int = 0
    correlation: str = ""
    traceparent: str = ""
    request_source: str = ""
    request_key: str = ""
    basis: int = 0
    decided_at_us: int = 0
    index: int = 0
    count: int = 0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One decoded entry of the log, as `evolve` receives it."""

    position: int
    recorded_at_us: int
    header: Header
    event: Event


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something was refused, in the order users read it.

    `field` what was refused, `value` what it said, `rule` the rule and who set it, `instead` what
    would be accepted. `unknown` is what kind of thing nothing of the name `value` is (`job`, `pool`,
    …): which one was probably meant is for the door to say that answers, as no decision depends on
    it. `str()` gives the one line that every door shows.
    """

    field: str
    rule: str
    value: str = ""
    instead: str = ""
    unknown: str = ""

    def __str__(self) -> str:
        value = f" = {self.value}" if self.value else ""
        instead = f"; {self.instead}" if self.instead else ""
        return f"refused: {self.field}{value} — {self.rule}{instead}"


def tag_of(event: Event | type[Event]) -> str:
    """The event's type tag, `noun.verb.v1`."""
    tag: Any = event.__struct_config__.tag
    return str(tag)


def stream_of(event: Event) -> str:
    """The stream the event belongs to, from its class's template and its own fields."""
    return type(event).stream.format_map(_Fields(event))


def project_of(event: Event) -> str:
    """The project the event belongs to, and whose people may see it; empty when it is nobody's."""
    return getattr(event, "project", "")


def job_of(event: Event) -> str:
    """The job the event is about; empty when it is about none."""
    return getattr(event, "job", "")


class _Fields(dict[str, object]):
    """Looks format fields up on the event itself, so that templates name fields directly."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def __missing__(self, key: str) -> object:
        return getattr(self._event, key)
