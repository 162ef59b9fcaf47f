"""What a service gives the runtime, and what the runtime gives a service's shell.

Rule: a service is its `Decider` plus a `Shell` for what it touches outside. The runtime alone
appends; a shell records facts through it and acts on what is committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from headrace.bus.interface import Bus
from headrace.decider import Decider
from headrace.events import Entry, Event, Fact, Refusal
from headrace.runtime.pipelines.durable import Durable
from headrace.runtime.suggestions import NamesOf
from headrace.store.interface import Store, Vault


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came through a door.

    `verb` is `job.submit`, …; `source` and `key` identify the request in its project (CloudEvents
    source and id). `actor` is who asks: from the gateway as it says, otherwise
    `publisher:<project>/<name>` of the credential; `via` the service account that asks for them.
    """

    verb: str
    project: str
    key: str
    body: bytes
    actor: str
    source: str = ""
    traceparent: str = ""
    via: str = ""

    @property
    def on_record(self) -> str:
        """Who asked, and through whom."""
        return f"{self.actor} via {self.via}" if self.via else self.actor


class Runtime(Protocol):
    """What a shell may use of the running service."""

    bus: Bus
    store: Store
    vault: Vault
    epoch: int  # of the current term; 0 while following

    @property
    def state(self) -> Any:
        """The service's state as folded so far: to read, never to change."""
        ...

    @property
    def position(self) -> int:
        """The position up to which `state` is folded."""
        ...

    @property
    def leading(self) -> bool:
        """Whether this instance decides."""
        ...

    @property
    def holds_lease(self) -> bool:
        """Whether nobody else can lead yet, by this process's own clock: what is promised to who
        is outside the log is promised within this time.
        """
        ...

    def now_us(self) -> int:
        """Database time, never below anything folded."""
        ...

    def record(self, fact: Fact, *, actor: str = "", traceparent: str = "") -> Awaitable[int]:
        """Queue a fact for the next append; resolves to its position. Raises nothing when refused:
        the future is cancelled when leadership ends.
        """
        ...

    def wake(self) -> None:
        """Run a turn soon."""
        ...


class Shell(Protocol):
    """The part of a service that touches the outside. All methods run on the service's loop."""

    async def lead(self, runtime: Runtime) -> None:
        """Leadership begins: `runtime.state` is folded to the head."""
        ...

    async def committed(self, entries: Sequence[Entry]) -> None:
        """These entries (of types the decider listens to) are in the log and folded. Called in
        order, while leading only, after the append: effects go here and are idempotent by
        position.
        """
        ...

    async def close(self) -> None:
        """Leadership ended or the service stops."""
        ...


Receive = Callable[[Request, Runtime], Awaitable[Fact | Refusal]]
"""Turns a request's body into the fact to record, or refuses what cannot be understood. A refusal
made here is answered and counted and never enters the log. May read `runtime.state`, draw ids, seal
and call the vault; must not decide."""

Answer = Callable[[Event, Runtime], Awaitable[dict[str, Any]]]
"""What the asker gets once the decision that answers its request is committed, besides `accepted`
and `position`. A decision with a `refusal` field answers `accepted: false` with it."""


Differing = Callable[[Event, Event, Runtime], Awaitable[Sequence[str]]]
"""In which fields a request differs from the one that had its key before; empty: not known. Both are
facts of the same type."""


Posting = Callable[[Any], tuple[Collection[str], tuple[Durable, ...]]]
"""By the state: the projects that may post, and the publishers that hear every outcome."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service: its decider, what it can be asked (verb to `Receive`), what it answers beyond the
    standard fields, its shell, the numbers its `decide` reads, and which projects' kept messages it works through.
    """

    decider: Decider[Any]
    requests: Mapping[str, Receive] = field(default_factory=dict)
    answer: Answer | None = None
    differing: Differing | None = None
    names_of: NamesOf | None = None  # among which an unknown name is looked for, for a suggestion
    shell: Shell | None = None
    settings: Mapping[str, int] = field(default_factory=dict)
    metrics: Callable[[Any], str] | None = (
        None  # the state as Prometheus text, for the leader's `/metrics`
    )
    condition: Callable[[Any], dict[str, object]] | None = (
        None  # what the state says of itself, for `/readyz`
    )
    niceness: int = 0  # how far its process steps back where cores are few, see nice(2)
    posting: Posting | None = None
    turns_apart_s_max: float = 0.025  # where many events come; an answer takes two turns
    relay: bool = False  # whether this service's process also keeps the streams of the bus
