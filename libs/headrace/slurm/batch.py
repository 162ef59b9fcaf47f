"""The job file that a batch script comes to.

Rule: what the command line says wins over the script's lines, as in Slurm. Where Slurm starts the
script on the first node alone, Headrace starts it on every node, and `srun` in it starts the tasks of
that node (`launcher`): together they are the same tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headrace.documents.plan import PRIORITIES
from headrace.slurm.amounts import count, duration, gpus, size_mib
from headrace.slurm.arrays import array
from headrace.slurm.launcher import LAUNCHER
from headrace.slurm.options import BY_NAME
from headrace.slurm.words import SlurmError, read_script, read_words, refuse

SCRIPT_BYTES_MAX = 60_000
NAME_LENGTH_MAX = 41
SWITCHES = ("help", "usage", "version", "parsable", "quiet", "test-only", "wait")
GPU_OPTIONS = ("gres", "gpus-per-node", "gpus", "gpus-per-task")
MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
DEPENDENCIES = {"afterok": "succeeded", "afternotok": "failed", "afterany": "finished"}
STATES = ", ".join(f"{name}:JOB" for name in DEPENDENCIES)

NAMED_ALONE = (
    "only variables that are named travel, for what travels stays in the log: --export=A,B=2"
)
_WHOLE = ("ALL", "NIL")
_SIGNAL = re.compile(r"(B:)?(?:SIG)?([A-Z][A-Z0-9]*|\d{1,2})(?:@(\d+))?")
_NUMBERS = {1: "HUP", 2: "INT", 10: "USR1", 12: "USR2", 15: "TERM"}  # on Linux
_PATTERN = re.compile(r"%([^%AajJnNuxs]|$)")


class Batch(msgspec.Struct, frozen=True):
    """A submission: the job file's fields, what `sbatch` itself was told (`SWITCHES`), and what of its
    options changes nothing here, a line each.
    """

    document: dict[str, Any]
    switches: frozenset[str]
    remarks: tuple[str, ...] = ()


def script_of(words: Sequence[str]) -> str:
    """The file a command line submits; empty with `--wrap`, `-` for stdin. Raises `SlurmError`."""
    options, rest = read_words(words)
    return "" if "wrap" in options else (rest[0] if rest else "-")


def batch_of(words: Sequence[str], script: str, environment: Mapping[str, str]) -> Batch:
    """The submission that `sbatch WORDS` is. `script` is the text of the file that `script_of` named,
    `environment` the shell's. Raises `SlurmError`, whose text is for the user.
    """
    said, rest = read_words(words)
    options = {**read_script(script), **said}
    if "wrap" in said:
        if rest:
            raise SlurmError(f"{rest[0]}: a script cannot be given beside --wrap")
        script = f"#!/bin/sh\n{said['wrap']}\n"
    name = "wrap" if "wrap" in said else (rest[0] if rest else "-").rpartition("/")[2]
    _check_script(name, script)
    wrong: list[str] = []
    document: dict[str, Any] = {
        "name": _name(options.get("job-name", "sbatch" if name == "-" else name)),
        "workdir": options.get("chdir", "."),
        "command": ["/bin/bash", "-c", LAUNCHER, "sbatch", script, *rest[1:]],
        "framework": "slurm",
    }
    for translate in TRANSLATORS:
        try:
            document |= {field: value for field, value in translate(options).items() if value}
        except SlurmError as error:
            wrong.append(str(error))
    try:
        document |= _variables(options, environment)
    except SlurmError as error:
        wrong.append(str(error))
    if wrong:
        raise SlurmError("\n".join(dict.fromkeys(wrong)))
    switches = frozenset(name for name in SWITCHES if name in options)
    return Batch(document, switches, tuple(_remarks(options)))


def _shape(options: Mapping[str, str]) -> dict[str, Any]:
    tasks = _Tasks(options)
    return {"nodes": tasks.nodes, "resources": _resources(options, tasks)}


def _variables(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        tasks = _Tasks(options)
    except SlurmError:
        return {}  # said by `_shape`
    env = _env(options, environment, tasks)
    return {"env": env} if env else {}


def _rest(options: Mapping[str, str]) -> dict[str, Any]:
    return {
        "project": options.get("account"),
        "pools": options["partition"].split(",") if "partition" in options else None,
        "priority": options.get("qos") if options.get("qos") in PRIORITIES else None,
    }


TRANSLATORS: tuple[Callable[[Mapping[str, str]], dict[str, Any]], ...] = (
    _shape,
    _rest,
    lambda options: {"outputs": _files(options)},
    lambda options: {
        "array": array("array", options["array"]).field() if "array" in options else ""
    },
    lambda options: {"max_duration": duration("time", options.get("time", "0"))},
    lambda options: {"checkpoint": _checkpoint(options)},
    lambda options: {"retry": _retry(options)},
    lambda options: {"after": _after(options)},
)


def _remarks(options: Mapping[str, str]) -> Iterator[str]:
    """What is taken and changes nothing."""
    for name in options:
        if BY_NAME[name].unused:
            instead = BY_NAME[name].instead
            yield f"--{name}: without effect here; {instead.removeprefix('nothing: ')}"
    if options.get("qos", "medium") not in PRIORITIES:
        yield f"--qos={options['qos']}: without effect here; {', '.join(PRIORITIES)} are known"
    if any(word in _WHOLE for word in options.get("export", "").split(",")):
        yield f"--export={options['export']}: {NAMED_ALONE}"


class _Tasks:
    """How many nodes, and how many tasks on each."""

    def __init__(self, options: Mapping[str, str]) -> None:
        nodes = _nodes(options["nodes"]) if "nodes" in options else 0
        total = count("ntasks", options["ntasks"]) if "ntasks" in options else 0
        here = count("ntasks-per-node", options.get("ntasks-per-node", "0"), low=0)
        if not nodes:
            nodes = -(-total // here) if total and here else 1
        if not here and total:
            here = total // nodes
        if total and total != nodes * here:
            rule = f"cannot be dealt evenly to {nodes} nodes with {here} tasks each"
            refuse("ntasks", str(total), rule, f"--ntasks={nodes * max(1, here)}")
        self.nodes, self.here = nodes, here or 1
        self.kind, self.gpus = _gpus(options, nodes, self.here)
        if "ntasks-per-gpu" in options:
            each = count("ntasks-per-gpu", options["ntasks-per-gpu"])
            if not self.gpus:
                refuse("ntasks-per-gpu", str(each), "there is no GPU", "--gpus-per-node=1")
            self.here = each * self.gpus


def _nodes(text: str) -> int:
    if "-" in text:
        rule = "a range would let the job grow and shrink while it runs"
        refuse("nodes", text, rule, "one number, or nodes: 2..8 in a job file")
    return count("nodes", text)


def _gpus(options: Mapping[str, str], nodes: int, here: int) -> tuple[str, int]:
    """The type and number of GPUs of each node."""
    given = [option for option in GPU_OPTIONS if option in options]
    if not given:
        return "", 0
    if len(given) > 1:
        refuse(given[1], options[given[1]], f"--{given[0]} says how many GPUs already")
    option = given[0]
    kind, number = gpus(option, options[option])
    if option == "gpus-per-task":
        number *= here
    if option == "gpus":
        if number % nodes:
            rule = f"cannot be dealt evenly to {nodes} nodes"
            refuse(option, options[option], rule, f"--gpus-per-node={max(1, number // nodes)}")
        number //= nodes
    return kind, number


def _resources(options: Mapping[str, str], tasks: _Tasks) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if tasks.gpus:
        found["gpus"] = f"{tasks.kind}:{tasks.gpus}" if tasks.kind else tasks.gpus
    cores = _cores(options, tasks)
    if cores:
        found["cpu"] = cores
    given = [option for option in MEMORY_OPTIONS if option in options]
    if len(given) > 1:
        refuse(given[1], options[given[1]], f"--{given[0]} says how much memory already")
    for option in given:
        times = {"mem": 1, "mem-per-cpu": cores or 1, "mem-per-gpu": tasks.gpus}[option]
        if not times:
            refuse(option, options[option], "there is no GPU", "--mem")
        memory_mib = size_mib(option, options[option]) * times
        if memory_mib:  # 0 is all that the node has, which Headrace leaves unsaid
            found["memory"] = f"{memory_mib}MiB"
    return found


def _cores(options: Mapping[str, str], tasks: _Tasks) -> int:
    """Of each node; 0 when nothing is said."""
    if "cpus-per-task" in options:
        if "cpus-per-gpu" in options:
            rule = "--cpus-per-task says how many cores already"
            refuse("cpus-per-gpu", options["cpus-per-gpu"], rule)
        return count("cpus-per-task", options["cpus-per-task"]) * tasks.here
    if "cpus-per-gpu" in options:
        return count("cpus-per-gpu", options["cpus-per-gpu"]) * tasks.gpus
    return tasks.here if tasks.here > 1 else 0


def _env(
    options: Mapping[str, str], environment: Mapping[str, str], tasks: _Tasks
) -> dict[str, str | None]:
    """The variables that travel, and what the launcher is told. A shell has more in it than a job
    should see for ever in the log, so without `--export` nothing of it travels.
    """
    env: dict[str, str | None] = {}
    for word in filter(None, options.get("export", "NONE").split(",")):
        name, given, value = word.partition("=")
        if given or name not in (*_WHOLE, "NONE"):
            env[name] = value if given else environment.get(name)
    told = {option: options[option] for option in ("output", "error", "input") if option in options}
    env |= {f"BATCH_{option.upper()}": value for option, value in told.items()}
    if _cores(options, tasks):
        env["SLURM_CPUS_ON_NODE"] = str(_cores(options, tasks))
    if "partition" in options:
        env["SLURM_JOB_PARTITION"] = options["partition"].partition(",")[0]
    if tasks.here > 1:
        env["BATCH_TASKS"] = str(tasks.here)
    if "job-name" in options:
        env["BATCH_NAME"] = options["job-name"]
    if "gpus-per-task" in options:
        env["SLURM_GPUS_PER_TASK"] = options["gpus-per-task"]
    if "cpus-per-task" in options:
        env["SLURM_CPUS_PER_TASK"] = options["cpus-per-task"]
    signal = _signal(options)
    if signal is not None and not signal[1]:  # without B: it is for what srun started
        env["BATCH_SIGNAL"] = signal[2]
    if "array" in options:
        env |= array("array", options["array"]).env()
    return env


def _files(options: Mapping[str, str]) -> list[str]:
    """Where its output is written, as patterns of what is kept."""
    kept = []
    for option in ("output", "error"):
        pattern = options.get(option, "")
        wrong = _PATTERN.search(pattern.replace("%%", ""))
        if wrong is not None:
            rule = f"%{wrong[1]} is not filled in here"
            refuse(option, pattern, rule, "%j %J %A %a %x %n %N %u %s are")
        if pattern and not pattern.startswith("/") and pattern not in kept:
            kept.append(pattern)
    return [re.sub(r"%[AajJnNuxs]", "*", pattern).replace("%%", "%") for pattern in kept]


def _checkpoint(options: Mapping[str, str]) -> dict[str, str]:
    found = _signal(options)
    if found is None:
        return {}
    return {"signal": f"{found[1] or ''}{found[2]}", "grace": f"{int(found[3] or 60)}s"}


def _signal(options: Mapping[str, str]) -> re.Match[str] | None:
    text = options.get("signal", "")
    found = _SIGNAL.fullmatch(text)
    if found is not None and found[2].isdecimal():
        number = found[2]
        text = text.replace(number, _NUMBERS.get(int(number), ""), 1)
        found = _SIGNAL.fullmatch(text)
    if text and found is None:
        refuse("signal", text, "is no signal", "USR1@120 is USR1, 120 s before the end")
    return found


def _retry(options: Mapping[str, str]) -> dict[str, Any]:
    """Being preempted never counts here, so that a lost node is what requeueing is about."""
    if "requeue" in options and "no-requeue" in options:
        refuse("no-requeue", "", "--requeue says the opposite")
    return {"on": ["node-lost"], "attempts": 3} if "requeue" in options else {}


def _after(options: Mapping[str, str]) -> list[dict[str, str]]:
    text = options.get("dependency", "")
    found = []
    for part in filter(None, text.split(",")):
        kind, *jobs = part.split(":")
        if kind not in DEPENDENCIES or not all(jobs) or not jobs:
            refuse("dependency", text, f"{kind} is not known here", STATES)
        found += [{"job": job, "state": DEPENDENCIES[kind]} for job in jobs]
    return found


def _name(text: str) -> str:
    """A job's name from a Slurm one: `My_Job.sh` is `my-job-sh`."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return name[:NAME_LENGTH_MAX].strip("-") or "sbatch"


def _check_script(name: str, script: str) -> None:
    if not script.startswith("#!"):
        raise SlurmError(f"{name}: does not begin with #! and an interpreter, such as #!/bin/bash")
    if len(script.encode()) > SCRIPT_BYTES_MAX:
        raise SlurmError(f"{name}: a script has at most {SCRIPT_BYTES_MAX} bytes")
    if "\0" in script:
        raise SlurmError(f"{name}: is not text")
    if "${{" in script:
        raise SlurmError(f"{name}: ${{{{ … }}}} is a template of job files; a script has variables")
