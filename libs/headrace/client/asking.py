"""How a gateway is asked: what every call of the client is made of."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from headrace.client.config import DEFAULT_PROJECT, Context
from headrace.client.connection import Connection
from headrace.client.errors import NotFound
from headrace.client.model import Answer

NAME_MAX = 200  # letters; longer than the platform takes for anything

T = TypeVar("T")

Document = Mapping[str, Any] | str | bytes


class Asking:
    """Questions to the gateway of one context, over one connection."""

    def __init__(
        self,
        url: str,
        token: str = "",
        project: str = DEFAULT_PROJECT,
        certificate: str = "",
        person: str = "",
    ) -> None:
        self.project = project
        self._context = Context(url, token, project, certificate, person)
        self._http = Connection(url, token, certificate, person)

    def _get(self, path: str, kind: type[T]) -> T:
        return msgspec.json.decode(self._http.get(path), type=kind)

    def _list(self, path: str, row: type[T]) -> list[T]:
        """Every page of a list."""
        decode = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]
        return [each for page in self._http.pages(path) for each in decode(page)]

    def _once(self, method: str, path: str, body: Document | None) -> Answer:
        key = uuid.uuid4().hex
        return self._change(method, path, None if body is None else encoded(body), lambda: key)

    def _change(self, method: str, path: str, body: bytes | None, key: Callable[[], str]) -> Answer:
        return self._http.change(method, path, body, key=key)


def encoded(document: Document) -> bytes:
    """A document as it is sent."""
    if isinstance(document, bytes):
        return document
    return document.encode() if isinstance(document, str) else msgspec.json.encode(document)


def fields_of(document: Document) -> Mapping[str, Any] | None:
    """The fields of a document; None of what is not one, for the platform to refuse."""
    if isinstance(document, Mapping):
        return document
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fields = msgspec.json.decode(document)
        return fields if isinstance(fields, dict) else None
    return None


def part(text: str) -> str:
    """A name as a part of a path. Raises `NotFound` for what names nothing, and would lead elsewhere:
    an empty path ends in the list.
    """
    if "/" in text or text in ("", ".", "..") or len(text) > NAME_MAX:
        shown = text if len(text) <= NAME_MAX else f"{text[:NAME_MAX]}…"
        raise NotFound(f"{shown!r} is no name of anything")
    return quote(text, safe="")


def job_path(job: str) -> str:
    """A job's id as a path: a task's index is a part of its own. Raises `NotFound`."""
    name, slash, index = job.partition("/")
    if slash and not index.isdecimal():
        raise NotFound(f"{job[:NAME_MAX]!r} is no job; a task is JOB/INDEX, such as {part(name)}/0")
    return f"{part(name)}/{index}" if slash else part(name)
