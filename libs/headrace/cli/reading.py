"""`ps` and `projects`: what is there, in one table."""

from __future__ import annotations

from argparse import ArgumentParser

from headrace.cli.arguments import add_connection, add_output, add_watch
from headrace.cli.exits import DONE
from headrace.cli.output import duration, gpus, show, table
from headrace.client.client import Client
from headrace.client.model import ENDED, MAX_PAGE, JobRow, ProjectRow

CANNOT_TODAY = "accepted, but cannot run today: "
ENDED_SHOWN = 10  # jobs that ended, beside all live ones

JOBS = ("JOB", "PROJECT", "TYPE", "STATE", "GPUS", "WAITED", "RAN", "WHERE / WHY")
JOBS_WIDE = (*JOBS[:-1], "USER", "ATTEMPT", "EVICTED", "GPU-TIME", JOBS[-1])
PROJECTS = (
    *("PROJECT", "KIND", "QUOTA", "LIMIT", "WEIGHT", "SHARE", "HOLDS", "RUNNING", "WAITING"),
    "GPU-TIME",
)


def ps_options(parser: ArgumentParser) -> None:
    """The arguments of `ps`."""
    add_connection(parser)
    add_output(parser)
    add_watch(parser)
    parser.add_argument("--user", default="", help="only jobs of this user")
    parser.add_argument("--state", default="", help="only jobs in this state; also live or ended")
    parser.add_argument("--group", default="", help="the tasks of this sweep or array")
    parser.add_argument("-a", "--all", action="store_true", help="also jobs that ended long ago")
    parser.add_argument("--sort", default="", help="in this order, -gpu-time for the largest first")
    parser.add_argument("--limit", type=int, default=MAX_PAGE, help="at most so many, the latest")


def ps(
    *,
    url: str,
    token: str,
    project: str,
    output: str,
    user: str,
    state: str,
    group: str,
    all: bool,  # noqa: A002
    sort: str,
    limit: int,
) -> int:
    """List jobs: live ones and the latest that ended."""
    ended = MAX_PAGE if all or state in ("ended", *ENDED) or group else ENDED_SHOWN
    client = Client.from_config(url=url, token=token)
    page = client.jobs(
        project=project, user=user, state=state, group=group, ended=ended, sort=sort, limit=limit
    )
    if output in ("json", "yaml"):
        show(page.jobs, output)
    else:
        wide = output == "wide"
        rows = [_job_cells(row, wide=wide) for row in page.jobs]
        table(JOBS_WIDE if wide else JOBS, rows, wide=wide)
    return DONE


def projects_options(parser: ArgumentParser) -> None:
    """The arguments of `projects`."""
    add_connection(parser)
    add_output(parser)
    add_watch(parser)


def projects(*, url: str, token: str, project: str, output: str) -> int:
    """List departments and projects with quota, share and use."""
    rows = Client.from_config(url=url, token=token).projects()
    if project:
        rows = [row for row in rows if row.project == project]
    if output in ("json", "yaml"):
        show(rows, output)
    else:
        table(PROJECTS, [_project_cells(row) for row in rows], wide=output == "wide")
    return DONE


def state_cell(row: JobRow) -> str:
    """The state; a group's with how many of its tasks run and have ended."""
    if not row.tasks:
        return row.state
    ended = f"{row.tasks_ended}/{row.tasks}"
    return (
        f"{row.state} {row.tasks_running} · {ended}"
        if row.tasks_running
        else f"{row.state} {ended}"
    )


def _job_cells(row: JobRow, *, wide: bool) -> list[str]:
    cells = [
        row.job,
        row.project,
        row.kind,
        state_cell(row),
        f"{row.tasks_running} × {row.wants}" if row.tasks and row.tasks_running else row.wants,
        duration(row.waited_us),
        duration(row.ran_us) if row.started_at_us or row.ran_us else "–",
    ]
    if wide:
        more = [row.user, str(row.attempt), str(row.evictions), _gpu_time(row.gpu_us)]
        cells += more
    return [*cells, _where_or_why(row)]


def _where_or_why(row: JobRow) -> str:
    where = " ".join(row.where)
    if row.state in ("running", "starting"):
        return "  ".join(part for part in (where, row.why) if part)
    if row.state == "succeeded":
        return f"{where}  exit 0" if not row.tasks else where
    if row.state == "failed":
        code = f"exit {row.exit_code}" if row.exit_code is not None else ""
        return "  ".join(part for part in (where, code, row.why) if part)
    if row.state in ("waiting", "held") and row.why.startswith(CANNOT_TODAY):
        return f"cannot today: {row.why.removeprefix(CANNOT_TODAY)}"
    if row.state == "waiting":
        unit = "" if row.wants.endswith("cpu") else " GPUs"
        return row.why or f"waits for {row.wants}{unit}" if row.wants != "–" else row.why
    return row.why


def _project_cells(row: ProjectRow) -> list[str]:
    indent = "" if row.kind == "department" or not row.parent else "  "
    return [
        f"{indent}{row.project}",
        row.kind,
        "all" if row.quota_milli < 0 else gpus(row.quota_milli),
        "–" if row.limit_milli < 0 else gpus(row.limit_milli),
        str(row.weight),
        gpus(row.share_milli) if row.kind == "project" else "–",
        gpus(row.held_milli),
        str(row.running),
        str(row.waiting),
        _gpu_time(row.gpu_us),
    ]


def _gpu_time(gpu_us: int) -> str:
    return duration(gpu_us)
