"""I6: every accepted request is in the log exactly once."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.events import Entry, Fact
from headrace.verification.violation import Violation

KEY_US = 30 * 86_400 * 1_000_000  # how long a request is unique in its project


class Requests:
    """The request keys in the log."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, str, str], tuple[int, int]] = {}  # position and time of the fact

    def check(self, entry: Entry) -> Iterable[str]:
        """What is wrong with this entry as the record of a request."""
        header = entry.header
        if not header.request_key or not isinstance(entry.event, Fact):
            return
        key = (header.project, header.request_source, header.request_key)
        before = self.at.get(key)
        if before is not None and entry.recorded_at_us - before[1] < KEY_US:
            yield f"request {header.request_key} was already recorded at position {before[0]}"
        self.at[key] = (entry.position, entry.recorded_at_us)

    def __contains__(self, key: tuple[str, str, str]) -> bool:
        return key in self.at


def check_accepted(requests: Requests, accepted: Iterable[tuple[str, str, str]]) -> list[Violation]:
    """Requests that somebody was told are accepted, as `(project, source, key)`, and the log lacks."""
    return [
        Violation(invariant="I6", position=0, what=f"accepted request {key} is not in the log")
        for project, source, key in accepted
        if (project, source, key) not in requests
    ]
