"""`describe`: one job with its attempts, the decisions about it, and its timeline."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from typing import Any

from headrace.cli.arguments import add_connection, add_output, add_watch
from headrace.cli.choosing import add_job, check_job, chosen
from headrace.cli.exits import DONE, printable
from headrace.cli.follow import placement
from headrace.cli.following import line_of
from headrace.cli.output import duration, gpus, moment, seconds, show, size, terminal_safe
from headrace.cli.reading import state_cell
from headrace.client.client import Client
from headrace.client.errors import ClientError
from headrace.client.model import AttemptRow, Description, JobRow

TASKS_SHOWN = 10
TIMELINE_SHOWN = 30
TAIL_BYTES, TAIL_LINES = 4_096, 10
ESCAPE, PLAIN = "\x1b", "\x1b[0m"

_NUMBER = re.compile(r"[0-9.]+")


def describe_options(parser: ArgumentParser) -> None:
    """The arguments of `describe`."""
    add_job(parser)
    add_connection(parser)
    add_output(parser)
    add_watch(parser)


def describe(*, job: str, last: bool, url: str, token: str, project: str, output: str) -> int:
    """Show everything about one job that the log keeps in clear."""
    del project
    check_job("describe", job, is_last=last)
    client = Client.from_config(url=url, token=token)
    found = client.job(chosen(client, job))
    if output in {"json", "yaml"}:
        show(found, output)
        return DONE
    head, *lines = _lines(found, wide=output == "wide")
    print(printable(head).rstrip())
    for line in last_lines(client, found):  # first: most who look at a failed job look for these
        print(line)
    for line in lines:
        print(printable(line).rstrip())
    return DONE


def last_lines(client: Client, found: Description) -> list[str]:
    """The last that the worker wrote whose end tells why the job failed; what cannot be read is left
    out, for the reason stands above it.
    """
    ended = next((e for e in reversed(found.timeline) if e.type == "job.finished.v1"), None)
    if ended is None or ended.data.get("outcome") != "failed" or not ended.data.get("node"):
        return []
    rank, attempt = int(ended.data.get("rank", 0)), int(ended.data.get("attempt", 0))
    process = int(ended.data.get("process", -1))
    try:
        pieces = client.logs(
            found.job.job,
            rank=rank,
            process=process if process >= 0 else None,
            attempt=attempt,
            tail_bytes=TAIL_BYTES,
        )
        text = "".join(piece.text for piece in pieces)
    except ClientError:
        return []
    lines = [_as_written(line) for line in text.splitlines()[-TAIL_LINES:]]
    which = f"rank {rank} process {process}" if process > 0 else f"rank {rank}"
    head = f"  last lines of {which} on {ended.data['node']}"
    return [head, *(f"    {line}" for line in lines)] if lines else []


ESCAPE, PLAIN = "\x1b", "\x1b[0m"


def _as_written(line: str) -> str:
    """With its own colours, which what follows has not."""
    safe = terminal_safe(line)
    return f"{safe}{PLAIN}" if ESCAPE in safe else safe


def _lines(found: Description, *, wide: bool) -> list[str]:
    row = found.job
    lines = [
        f"{row.job}  {state_cell(row)}   project {row.project}   user {row.user}",
        f"  wants   {_wants(row.wants)}   held {duration(row.gpu_us)} of GPU-time",
        f"  asked   {moment(row.requested_at_us)}   position {row.position}",
        f"  waited  {seconds(row.waited_us)}   ran {seconds(row.ran_us)}",
        f"  trace   {found.trace or '–'}",
    ]
    if row.why:
        lines.append(f"  why     {row.why}")
    if row.best:
        lines.append(f"  best    {row.best}")
    if row.exit_code is not None:
        lines.append(f"  exit    {row.exit_code}")
    if found.params:
        lines.append(f"  params  {_pairs(found.params)}")
    if name := found.spec.get("template"):
        lines.append(f"  from    template {name} (position {found.spec.get('template_at')})")
    lines.append(f"  spec    {_spec(found.spec)}")
    for attempt in found.attempts:
        lines.extend(_attempt(attempt))
    lines.extend(_unprotected(found))
    lines.extend(_tasks(found.tasks, wide=wide))
    shown = found.timeline if wide else found.timeline[-TIMELINE_SHOWN:]
    lines.append(
        "  timeline"
        + ("" if len(shown) == len(found.timeline) else "  (its end; -o wide shows all)")
    )
    lines.extend(line_of(event, wide=wide, about=row.job) for event in shown)
    return lines


def _unprotected(found: Description) -> list[str]:
    """What others on its node get to of a workspace that runs."""
    if found.job.kind != "workspace" or found.job.state != "running":
        return []
    (worker,) = found.attempts[-1].workers
    if "+loopback" in worker.isolation:
        return []
    where = f"ports on 127.0.0.1 of {worker.node} are open to every job and person there"
    return [f"  TCP     {where}; what is at $HEADRACE_APP_SOCKET is not"]


def _wants(wants: str) -> str:
    """`2 GPUs`, where nothing else says what there are two of."""
    return f"{wants} {'GPU' if wants == '1' else 'GPUs'}" if _NUMBER.fullmatch(wants) else wants


def _attempt(attempt: AttemptRow) -> list[str]:
    lines = [
        f"  attempt {attempt.attempt}  {placement(attempt)}  at {moment(attempt.placed_at_us)}",
        f"    decided by {attempt.rule}  {_pairs(attempt.numbers | attempt.names)}",
    ]
    for worker in attempt.workers:
        code = "" if worker.exit_code is None else f"  exit {worker.exit_code}"
        role = f"  {worker.role}" if worker.role else ""
        level = f"  isolation {worker.isolation}" if worker.isolation else ""
        lines.append(
            f"    rank {worker.rank}{role}  {worker.node}  {worker.state}{code}{level}  {worker.message}"
        )
        if worker.reported:
            lines.append(f"      reports {_pairs(worker.reported)}")
    if attempt.evicted:
        gainer = f" for {attempt.gainer}" if attempt.gainer else ""
        numbers: dict[str, Any] = attempt.eviction_numbers | attempt.eviction_names
        lines.append(
            f"    stopped: {attempt.evicted}{gainer}  by {attempt.eviction_rule}  {_pairs(numbers)}"
        )
    if attempt.released_at_us:
        lines.append(
            f"    released {moment(attempt.released_at_us)}, held {seconds(attempt.held_us)}"
        )
    return lines


def _tasks(tasks: list[JobRow], *, wide: bool) -> list[str]:
    shown = tasks if wide else tasks[:TASKS_SHOWN]
    lines = [f"  {task.job}  {task.state}  {' '.join(task.where)}  {task.why}" for task in shown]
    if len(shown) < len(tasks):
        lines.append(f"  and {len(tasks) - len(shown)} more (headrace ps --group {tasks[0].group})")
    return lines


def _spec(spec: dict[str, Any]) -> str:
    gang = spec.get("gang", {})
    topology = (gang.get("topology_required", ""), gang.get("topology_preferred", ""))
    parts = {
        "nodes": gang.get("nodes", 1),
        "succeeds_when": gang.get("succeeds_when", ""),
        "gpus": " | ".join(_choice(choice) for choice in gang.get("accelerators", [])),
        "cpu": gpus(int(gang.get("cpu_milli", 0))) if gang.get("cpu_milli") else "",
        "memory": size(int(gang["memory_bytes"])) if gang.get("memory_bytes") else "",
        "priority": spec.get("priority"),
        "pools": " ".join(gang.get("pools", ())),
        "topology": " ".join(level for level in topology if level),
        "preemptible": _preemptible(spec),
        "max_duration": duration(int(spec.get("max_duration_us") or 0))
        if spec.get("max_duration_us")
        else "",
        "replace_after": duration(int(spec.get("replace_after_us") or 0))
        if spec.get("replace_after_us")
        else "",
        "secrets": " ".join(spec.get("secrets", ())),
    }
    return _pairs({name: value for name, value in parts.items() if value not in (None, "")})


def _choice(choice: dict[str, Any]) -> str:
    kind = ":".join(choice[name] for name in ("model", "profile") if choice.get(name))
    return f"{kind or 'any'}:{gpus(int(choice.get('milli', 0)))}"


def _preemptible(spec: dict[str, Any]) -> str:
    if spec.get("protected_minimum"):
        return "above its minimum"
    return "yes" if spec.get("preemptible", True) else "no"


def _pairs(values: dict[str, Any]) -> str:
    return "  ".join(f"{name}={value}" for name, value in values.items())
