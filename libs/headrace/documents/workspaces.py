"""What a workspace runs: an application that people open through the gateway.

Rule: it is one worker that somebody sits in front of, so nothing is taken from it unless it says so.
Where it listens is `$HEADRACE_APP_SOCKET`, a unix socket that no other job gets to, or
`$HEADRACE_APP_PORT`: a port of its worker's own, or the one that it names.
"""

from __future__ import annotations

from typing import Any

from headrace.documents.apps import APPS
from headrace.documents.job_file import IdleFile, JobFile
from headrace.documents.mounts import ALL
from headrace.documents.nearest import nearest
from headrace.documents.quantities import duration_us
from headrace.documents.refusing import refuse
from headrace.events.asked import Workspace

WORKSPACE = "workspace"
APP_PORT, APP_SOCKET = "HEADRACE_APP_PORT", "HEADRACE_APP_SOCKET"
IDLE_US_MIN, IDLE_US_MAX = 20_000_000, 366 * 86_400_000_000  # use is seen every few seconds

_FIELDS = ("command", "port")
_INSTEAD = 'app: {command: python -m http.server "$HEADRACE_APP_PORT"}'
_ALONE = ("roles", "array", "sweep", "retry", "succeeds_when")


def workspace_of(job: JobFile) -> Workspace | None:
    """Where its application listens; None of a job that is no workspace. Raises `DocumentError`."""
    if job.type != WORKSPACE:
        if job.app:
            refuse("app", "only a workspace has one", instead="type: workspace")
        if job.idle is not None:
            refuse("idle", "only a workspace is used by somebody", instead="type: workspace")
        return None
    if job.command:
        refuse("command", "a workspace runs its app", instead="app: {command: …}")
    for field in _ALONE:
        if getattr(job, field):
            refuse(field, "a workspace is one worker that somebody opens", instead="leave it out")
    if job.nodes != 1:
        rule = "a workspace is one worker that somebody opens"
        refuse("nodes", rule, value=job.nodes, instead="nodes: 1")
    return Workspace(
        port=_port(_app(job).get("port", 0)),
        idle_us=_idle_us(job.idle),
        app=job.app if isinstance(job.app, str) else "",
    )


def kept_of(job: JobFile) -> list[str]:
    """The paths that are kept of it: of a workspace that says none all, for it is somebody's work that
    no other run makes again.
    """
    has_folder = not job.workdir.startswith("/")
    return [ALL] if job.type == WORKSPACE and not job.outputs and has_folder else job.outputs


def command_of(job: JobFile) -> Any:
    """What a job runs: a workspace its application. Raises `DocumentError`."""
    return _app(job).get("command", "") if job.type == WORKSPACE else job.command


def port_environment(workspace: Workspace | None) -> dict[str, str]:
    """How the application is told a port that it named; others are told by placement."""
    return {APP_PORT: str(workspace.port)} if workspace is not None and workspace.port else {}


def _app(job: JobFile) -> dict[str, Any]:
    if isinstance(job.app, str):
        if job.app in APPS:
            return {"command": APPS[job.app].command}
        rule = "is no application known here" if job.app else "must be given"
        refuse("app", rule, value=job.app or None, instead=f"{', '.join(APPS)}, or {_INSTEAD}")
    for name in job.app:
        if name not in _FIELDS:
            near = nearest(name, _FIELDS)
            instead = f"did you mean {near}?" if near else ", ".join(_FIELDS)
            refuse(f"app.{name}", "unknown field", instead=instead)
    return job.app


def _idle_us(idle: IdleFile | None) -> int:
    """After how long without use it ends; 0: never."""
    if idle is None:
        return 0
    if idle.action != "stop":
        refuse("idle.action", "is not known here", value=idle.action, instead="stop")
    if not idle.span:
        refuse("idle.for", "must be given", instead="for: 1h")
    span_us = duration_us("idle.for", idle.span)
    if not IDLE_US_MIN <= span_us <= IDLE_US_MAX:
        refuse("idle.for", "is from 20s to 366d", value=idle.span, instead="for: 1h")
    return span_us


def _port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65_535:
        rule = "must be a whole number from 1 to 65535"
        refuse("app.port", rule, value=value, instead="leave it out: $HEADRACE_APP_PORT is its own")
    return value
