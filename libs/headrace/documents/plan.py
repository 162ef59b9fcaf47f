"""What a job file comes to: what the scheduler is asked for, and what runs.

Rule: every value is checked here and nowhere else; whoever plans (the command line before sending,
admission on receiving) gets the same refusals. What needs the platform's state is decided later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from headrace.documents import checkpoints
from headrace.documents.dependencies import after_of
from headrace.documents.disconnects import replace_after_us
from headrace.documents.environment import environment, secret_names
from headrace.documents.frameworks import FIXED, FRAMEWORKS
from headrace.documents.gangs import gang_of
from headrace.documents.images import image_of, shm_bytes
from headrace.documents.job_file import JobFile
from headrace.documents.mounts import mounts_of, outputs_of
from headrace.documents.names import name_of
from headrace.documents.nearest import nearest
from headrace.documents.quantities import duration_us
from headrace.documents.refusing import DocumentError, not_yet, refuse, with_line
from headrace.documents.retries import retry_of
from headrace.documents.shell_text import SHELL
from headrace.documents.substitution import (
    CHECKPOINT_DIR,
    Text,
    check_none,
    check_templates,
    texts_of_command,
)
from headrace.documents.trials import Tasks, array_of, sweep_of, values_of
from headrace.documents.workdir import GIT, python_of, workdir_of
from headrace.documents.workspaces import (
    WORKSPACE,
    command_of,
    kept_of,
    port_environment,
    workspace_of,
)
from headrace.events import Refusal
from headrace.events.asked import Dependency, Gang, Mount, Retry, Workspace
from headrace.events.jobs import Checkpoint

COMMAND_BYTES_MAX = 65_536  # command and setup each
ARGUMENTS_MAX = 1_024
DURATION_US_MAX = 366 * 86_400_000_000
DEFAULT_NAME = "job"

TYPES = ("training", "workspace", "inference")
PRIORITIES = {
    "very-low": 10,
    "low": 20,
    "medium-low": 30,
    "medium": 40,
    "medium-high": 50,
    "high": 60,
    "very-high": 70,
}
PREEMPTIBILITIES = ("preemptible", "semi-preemptible", "non-preemptible")
DEFAULT_PREEMPTIBILITY = {"training": "preemptible", WORKSPACE: "non-preemptible"}


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job file with every value understood. `commands` are those of roles."""

    name: str
    project: str  # "": the door's
    gang: Gang
    command: tuple[str, ...]
    setup: tuple[str, ...] = ()
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    workdir: str = ""
    mounts: tuple[Mount, ...] = ()
    outputs: tuple[str, ...] = ()
    python: str = ""
    commands: dict[str, tuple[str, ...]] = {}
    retry: Retry = Retry()
    priority: str = "medium"
    preemptible: bool = True
    max_duration_us: int = 0
    replace_after_us: int = 0  # 0: losing contact changes nothing
    protected_minimum: bool = False
    checkpoint: Checkpoint | None = None
    tasks: Tasks | None = None
    framework: str = ""
    image: str = ""
    shm_bytes: int = 0
    after: tuple[Dependency, ...] = ()
    workspace: Workspace | None = None


def plan(job: JobFile, lines: Mapping[str, int] = {}) -> Plan | Refusal:
    """What the job file asks for, or the first thing in it that cannot be."""
    try:
        return _plan(job)
    except DocumentError as error:
        return with_line(error.refusal, lines)


def _plan(job: JobFile) -> Plan:
    _check_words(job)
    gang = gang_of(job)
    if job.framework in FIXED and gang.nodes_max:
        rule = "its processes cannot come and go"
        refuse("framework", rule, value=job.framework, instead=f"nodes: {gang.nodes}")
    tasks, workspace = _tasks(job), workspace_of(job)
    planned = Plan(
        name=name_of("name", job.name or DEFAULT_NAME),
        project=name_of("project", job.project) if job.project else "",
        gang=gang,
        command=() if job.roles and not job.command else _command(job),
        commands=_commands(job),
        setup=_argv("setup", job.setup) if job.setup else (),
        env=checkpoints.environment_of(job.checkpoint)
        | environment(job.env, allow_plain_secret=job.allow_plain_secret)
        | port_environment(workspace),
        secrets=secret_names(job.secrets, job.env),
        workdir=workdir_of(job.workdir),
        mounts=mounts_of(job.volumes),
        outputs=outputs_of(kept_of(job), job.workdir),
        python=python_of(job.python, job.image),
        priority=job.priority,
        preemptible=_preemptible(job, gang),
        max_duration_us=max_duration_us(job.max_duration),
        replace_after_us=replace_after_us(job.on_disconnect),
        retry=retry_of(job.retry),
        protected_minimum=job.preemptibility == "semi-preemptible",
        checkpoint=checkpoints.checkpoint_of(job.checkpoint),
        tasks=tasks,
        framework=job.framework,
        image=image_of(job),
        shm_bytes=shm_bytes(job),
        after=after_of(job.after),
        workspace=workspace,
    )
    _check_templates(planned, job)
    return planned


def _check_words(job: JobFile) -> None:
    """The fields whose value is one of a few words, and those that exclude each other."""
    left_behind = next((text for text in job.volumes if text.startswith("job/")), "")
    if job.image and left_behind:
        not_yet("volumes", value=left_behind, instead="leave out image:")
    _one_of("type", job.type, TYPES, built=("training", WORKSPACE))
    if job.framework:
        _one_of("framework", job.framework, tuple(filter(None, FRAMEWORKS)))
    _one_of("priority", job.priority, tuple(PRIORITIES))
    if job.preemptibility:
        _one_of("preemptibility", job.preemptibility, PREEMPTIBILITIES)


def _one_of(field: str, value: str, words: tuple[str, ...], *, built: tuple[str, ...] = ()) -> None:
    if value not in words:
        near = nearest(value, words)
        instead = f"did you mean {near}?" if near else ", ".join(words)
        refuse(field, "is not one of the words known here", value=value, instead=instead)
    if built and value not in built:
        not_yet(field, value=value, instead=" or ".join(built))


def _command(job: JobFile) -> tuple[str, ...]:
    field = "app.command" if job.type == WORKSPACE else "command"
    return _argv(field, command_of(job))


def _preemptible(job: JobFile, gang: Gang) -> bool:
    """Whether anything may be taken from the gang. One that never grows is all minimum."""
    preemptibility = job.preemptibility or DEFAULT_PREEMPTIBILITY[job.type]
    if preemptibility == "semi-preemptible":
        return gang.nodes_max > gang.nodes
    return preemptibility == "preemptible"


def _commands(job: JobFile) -> dict[str, tuple[str, ...]]:
    """What each role runs: its own command, or the job's."""
    return {
        name: _argv(f"roles.{name}.command", role.command)
        for name, role in job.roles.items()
        if role.command or not job.command
    }


def _tasks(job: JobFile) -> Tasks | None:
    if job.array != "" and job.sweep is not None:
        refuse("array", "a job has either array: or sweep:", value=job.array)
    if job.sweep is not None:
        return sweep_of(job.sweep)
    return array_of(job.array) if job.array != "" else None


def _argv(field: str, value: str | list[str | int | float | bool]) -> tuple[str, ...]:
    argv: tuple[str, ...] = ()
    if not isinstance(value, str):
        argv = tuple(_argument(part) for part in value)
    elif value.strip():
        argv = (*SHELL, value)
    if not argv or not argv[0]:
        refuse(field, "must be given", instead="command: python train.py")
    if len(argv) > ARGUMENTS_MAX or sum(len(part.encode()) for part in argv) > COMMAND_BYTES_MAX:
        refuse(field, f"has at most {ARGUMENTS_MAX} parts and {COMMAND_BYTES_MAX} bytes in all")
    if any("\0" in part for part in argv):
        refuse(field, "no program can be given a NUL character")
    return argv


def _argument(part: str | float | bool) -> str:
    if isinstance(part, bool):
        return "true" if part else "false"
    return repr(part) if isinstance(part, float) else str(part)


def max_duration_us(value: str) -> int:
    """0 when nothing is said. Raises `DocumentError`."""
    if not value:
        return 0
    amount = duration_us("max_duration", value)
    if amount > DURATION_US_MAX:
        refuse("max_duration", "is longer than a year", value=value, instead="leave it out")
    return amount


def _texts(planned: Plan) -> Iterator[Text]:
    """Everything that may have templates, with the field it stands in."""
    yield from texts_of_command("command", planned.command)
    for name, command in planned.commands.items():
        yield from texts_of_command(f"roles.{name}.command", command)
    yield from texts_of_command("setup", planned.setup)
    for name, value in planned.env.items():
        if name == CHECKPOINT_DIR:
            yield Text("checkpoint.dir", value, "path")
        else:
            yield Text(f"env.{name}", value, "value")
    yield Text("workdir", planned.workdir, "path")


def _check_templates(planned: Plan, job: JobFile) -> None:
    """Whether each has a value, and none stands in what is taken as it is written."""
    tasks = planned.tasks
    check_templates(
        _texts(planned),
        {name: tuple(values_of(tasks, name)) for name in tasks.params} if tasks else {},
        is_group=tasks is not None,
    )
    for field, texts in (("volumes", job.volumes), ("outputs", job.outputs)):
        for index, text in enumerate(texts):
            check_none(f"{field}[{index}]", text)
    if job.workdir.startswith(GIT):
        check_none("workdir", job.workdir)
