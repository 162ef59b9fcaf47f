"""How a request's body becomes a fact: read as one Struct or one document, and told on as one fact.

Rule: whoever adds a verb writes what reads its body (a Struct with `refusal`, or a reader of
documents) and one function under `@receives` or `@receives_document`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from headrace.bus.subjects import FLEET
from headrace.documents import read_json
from headrace.documents.names import NAME, NAME_RULE
from headrace.documents.refusing import shown
from headrace.events import Fact, Refusal
from headrace.runtime.service import Receive, Request, Runtime

DOCUMENT_BYTES_MAX = 65_536  # a fact has it as it was applied, quoted, beside what it says


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""

    def refusal(self) -> Refusal | None:
        """What is wrong with it."""
        return None


class Named(Asked, frozen=True, kw_only=True):
    """The body of a request about one thing of that name: `pool.delete`, `publisher.delete`, …"""

    name: str

    def refusal(self) -> Refusal | None:
        if NAME.fullmatch(self.name):
            return None
        return Refusal(field="name", value=shown(self.name), rule=NAME_RULE)


class JobNamed(Asked, frozen=True, kw_only=True):
    """`job.pause`, `job.resume`."""

    job: str

    def refusal(self) -> Refusal | None:
        return job_refusal(self.job)


class JobEnding(JobNamed, frozen=True, kw_only=True):
    """`job.cancel`. `now`: its workers are not asked first."""

    now: bool = False


_JOB_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(/[0-9]{1,4})?")

A = TypeVar("A", bound=Asked)
T = TypeVar("T")
Receiver = Callable[[Callable[[T, Request], Fact | Refusal]], Receive]


def receives(kind: type[A], of_fleet: str = "") -> Receiver[A]:
    """Receives bodies of this kind. `of_fleet` is the rule that its verb has no project: what comes
    through a project's door is refused with it.
    """
    return _receiver(lambda body: decoded(body, kind), of_fleet)


def receives_document(read: Callable[[object], T | Refusal], of_fleet: str = "") -> Receiver[T]:
    """Receives documents that `read` understands; `of_fleet` as for `receives`."""
    return _receiver(lambda body: document(body, read), of_fleet)


def decoded(body: bytes, kind: type[A]) -> A | Refusal:
    """The body, if it is well formed."""
    try:
        asked = msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        names = ", ".join(kind.__struct_fields__) or "nothing in it"
        rule = shown(error) or "cannot be read"
        return Refusal(field="request", rule=rule, instead=f"a JSON object with {names}")
    return asked.refusal() or asked


def document(body: bytes, read: Callable[[object], T | Refusal]) -> T | Refusal:
    """What the document in the body describes."""
    if len(body) > DOCUMENT_BYTES_MAX:
        rule = f"a document has at most {DOCUMENT_BYTES_MAX} bytes as JSON"
        return Refusal(field="document", value=f"{len(body)} bytes", rule=rule)
    fields = read_json(body)
    return fields if isinstance(fields, Refusal) else read(fields)


def job_refusal(job: str) -> Refusal | None:
    """What is wrong with what should be a job's id."""
    if _JOB_ID.fullmatch(job):
        return None
    return Refusal(field="job", value=shown(job), rule="is not a job's id")


def line(text: str, length_max: int) -> str:
    """A text that somebody else wrote, as one line that is safe to keep and show."""
    return "".join(c if c.isprintable() else "?" for c in text[:length_max])


def _receiver(read: Callable[[bytes], T | Refusal], of_fleet: str) -> Receiver[T]:
    def receiver(tell: Callable[[T, Request], Fact | Refusal]) -> Receive:
        async def receive(request: Request, runtime: Runtime) -> Fact | Refusal:
            del runtime
            if of_fleet and request.project != FLEET:
                return Refusal(field="project", value=request.project, rule=of_fleet, instead=FLEET)
            asked = read(request.body)
            return asked if isinstance(asked, Refusal) else tell(asked, request)

        return receive

    return receiver
