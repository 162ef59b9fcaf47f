"""What happened, in words: one sentence for each event that people look at.

Rule: what was said by users is shown as it is in the log, for whoever prints it to escape; an event
that has no sentence here is shown with its fields, so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.cli.output import seconds
from headrace.client.model import why_ended

Data = Mapping[str, Any]

NODES_MAX = 4  # named in a sentence


def sentence(kind: str, data: Data) -> str:
    """What an event of this type says; empty when it has no sentence."""
    told = _SENTENCES.get(kind)
    return told(data) if told is not None else ""


def _requested(data: Data) -> str:
    return f"{data.get('user') or 'somebody'} asked for it"


def _admitted(data: Data) -> str:
    after = data.get("after") or ()
    names = " ".join(str(each.get("job", "")) for each in after)
    tasks = f" as {data['tasks']} tasks" if data.get("tasks") else ""
    warning = f": {data['warning']}" if data.get("warning") else ""
    return f"was admitted{tasks}{f', after {names}' if names else ''}{warning}"


def _refused(data: Data) -> str:
    refusal = data.get("refusal") or {}
    value = f" = {refusal['value']}" if refusal.get("value") else ""
    return f"was refused: {refusal.get('field', '')}{value} — {refusal.get('rule', '')}"


def _placed(data: Data) -> str:
    return f"attempt {data.get('attempt', 1)} was given {_nodes(data)}"


def _started(data: Data) -> str:
    return f"all of attempt {data.get('attempt', 1)} run, after {_span(data, 'waited_us')}"


def _worker_started(data: Data) -> str:
    return f"rank {data.get('rank', 0)} started on {data.get('node', '')}"


def _worker_exited(data: Data) -> str:
    who = f"rank {data.get('rank', 0)} ended on {data.get('node', '')}"
    reason = data.get("reason", "")
    if reason in ("", "exited"):
        return f"{who} with exit code {data.get('exit_code', 0)}"
    return f"{who}: {why_ended(str(reason), str(data.get('message', ''))) or reason}"


def _evicted(data: Data) -> str:
    gainer = f" for {data['gainer']}" if data.get("gainer") else ""
    return f"is to stop: {data.get('reason', '')}{gainer}"


def _released(data: Data) -> str:
    again = ", for another attempt" if data.get("again") else ""
    return f"gave its places back{again}"


def _grown(data: Data) -> str:
    return f"grows by {_nodes(data)}"


def _shrunk(data: Data) -> str:
    ranks = " ".join(str(rank) for rank in data.get("ranks") or ())
    reason = f": {data['reason']}" if data.get("reason") else ""
    return f"gives up ranks {ranks}{reason}"


def _finished(data: Data) -> str:
    parts = [str(data.get("outcome", "ended"))]
    if data.get("outcome") == "failed":
        parts[0] += f": exit {data.get('exit_code', 0)}"
    if data.get("outcome") == "failed" and data.get("node"):
        parts.append(f"of rank {data.get('rank', 0)} on {data['node']}")
    why = why_ended(str(data.get("reason", "")), str(data.get("message", "")))
    told = f" ({why})" if why and data.get("outcome") != "succeeded" else ""
    return f"{' '.join(parts)}{told}, ran {_span(data, 'ran_us')}"


def _cancelling(data: Data) -> str:
    by = f" by {data['user']}" if data.get("user") else ""
    why = f": {data['message']}" if data.get("message") else ""
    return f"is to end{by}{why}"


def _paused(data: Data) -> str:
    lost = f"; lost: {data['lost']}" if data.get("lost") else ""
    return f"is paused ({data.get('way', '')}){lost}"


def _by(what: str) -> Callable[[Data], str]:
    return lambda data: f"{what} by {data['user']}" if data.get("user") else what


def _nodes(data: Data) -> str:
    names = list(dict.fromkeys(str(each.get("node", "")) for each in data.get("workers") or ()))
    more = f" and {len(names) - NODES_MAX} more" if len(names) > NODES_MAX else ""
    return f"{' '.join(names[:NODES_MAX])}{more}"


def _span(data: Data, name: str) -> str:
    return seconds(int(data.get(name, 0)))


_SENTENCES: dict[str, Callable[[Data], str]] = {
    "job.requested.v1": _requested,
    "job.admitted.v1": _admitted,
    "job.refused.v1": _refused,
    "job.eligible.v1": lambda _: "may compete for GPUs",
    "job.held.v1": lambda data: f"is held: {data.get('reason', '')}",
    "job.started.v1": _started,
    "job.finished.v1": _finished,
    "job.cancel_requested.v1": _by("its end was asked for"),
    "job.cancelling.v1": _cancelling,
    "job.pause_requested.v1": _by("its pause was asked for"),
    "job.pausing.v1": lambda _: "is to leave its GPUs",
    "job.paused.v1": _paused,
    "job.resume_requested.v1": _by("it was asked to go on"),
    "job.resuming.v1": lambda _: "is to go on",
    "gang.placed.v1": _placed,
    "gang.grown.v1": _grown,
    "gang.shrunk.v1": _shrunk,
    "gang.evicted.v1": _evicted,
    "gang.released.v1": _released,
    "gang.paused.v1": lambda _: "has left its GPUs; what it did is kept in memory",
    "gang.resumed.v1": lambda _: "goes on where it was",
    "attempt.started.v1": _worker_started,
    "attempt.exited.v1": _worker_exited,
}
