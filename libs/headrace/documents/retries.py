"""When a job is tried again after an end that nobody asked for.

Rule: being preempted, moved or drained is never an attempt used up, and nor is being cancelled an end
that is tried again. Whoever saves itself at its limit (`checkpoint`) may go on with `timeout`.
"""

from __future__ import annotations

from headrace.documents.job_file import RetryFile
from headrace.documents.nearest import nearest
from headrace.documents.quantities import duration_us
from headrace.documents.refusing import refuse
from headrace.events.asked import RETRY_ON, Retry

ATTEMPTS_MAX = 100
BACKOFF_US_MAX = 86_400_000_000

NEVER = {
    "preempted": "is never an attempt used up: the job goes on by itself",
    "cancelled": "is an end for good",
}


def retry_of(file: RetryFile | None) -> Retry:
    """What the job file says. Raises `DocumentError`."""
    if file is None:
        return Retry()
    if not file.on:
        refuse("retry.on", "must be given", instead=f"on: [{', '.join(RETRY_ON)}]")
    for word in file.on:
        if word not in RETRY_ON:
            near = nearest(word, RETRY_ON)
            instead = f"did you mean {near}?" if near else ", ".join(RETRY_ON)
            rule = NEVER.get(word, "is not one of the words known here")
            refuse("retry.on", rule, value=word, instead=instead)
    if not 1 <= file.attempts <= ATTEMPTS_MAX:
        refuse("retry.attempts", f"must be 1 to {ATTEMPTS_MAX}", value=file.attempts)
    backoff_us = duration_us("retry.backoff", file.backoff) if file.backoff != "0s" else 0
    if backoff_us > BACKOFF_US_MAX:
        refuse("retry.backoff", "is longer than a day", value=file.backoff, instead="24h")
    on = tuple(word for word in RETRY_ON if word in file.on)
    return Retry(on=on, attempts=file.attempts, backoff_us=backoff_us)
