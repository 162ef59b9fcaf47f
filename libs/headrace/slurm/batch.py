"""The job file that a batch script comes to.

Rule: what the command line says wins over the script's lines, as in Slurm. Where Slurm starts the
script on the first node alone, Headrace starts it on every node, and `srun` in it starts the tasks of
that node (`launcher`): together they are the same tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.slurm.amounts import count, duration, gpus, size_mib
from headrace.slurm.arrays import array
from headrace.slurm.launcher import LAUNCHER
from headrace.slurm.words import SlurmError, read_script, read_words, refuse

SCRIPT_BYTES_MAX = 60_000
NAME_LENGTH_MAX = 41
SWITCHES = ("help", "usage", "version", "parsable", "quiet", "test-only", "wait")
GPU_OPTIONS = ("gres", "gpus-per-node", "gpus", "gpus-per-task")
MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
DEPENDENCIES = {"afterok": "succeeded", "afternotok": "failed", "afterany": "finished"}
STATES = ", ".join(f"{name}:JOB" for name in DEPENDENCIES)

_SIGNAL = re.compile(r"(B:)?(?:SIG)?([A-Z][A-Z0-9]*)(?:@(\d+))?")
_PATTERN = re.compile(r"%([^%AajJnNuxs]|$)")


class Batch(msgspec.Struct, frozen=True):
    """A submission: the job file's fields, and what `sbatch` itself was told (`SWITCHES`)."""

    document: dict[str, Any]
    switches: frozenset[str]


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
    tasks = _Tasks(options)
    fields = {
        "name": _name(options.get("job-name", "sbatch" if name == "-" else name)),
        "project": options.get("account"),
        "workdir": options.get("chdir", "."),
        "command": ["/bin/bash", "-c", LAUNCHER, "sbatch", script, *rest[1:]],
        "framework": "slurm",
        "nodes": tasks.nodes,
        "resources": _resources(options, tasks),
        "env": _env(options, environment, tasks),
        "outputs": _files(options),
        "array": array("array", options["array"]).field() if "array" in options else "",
        "pools": options["partition"].split(",") if "partition" in options else None,
        "priority": options.get("qos"),
        "max_duration": duration("time", options["time"]) if "time" in options else None,
        "checkpoint": _checkpoint(options),
        "retry": _retry(options),
        "after": _after(options),
    }
    document = {field: value for field, value in fields.items() if value}
    return Batch(document, frozenset(name for name in SWITCHES if name in options))


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
        if name in {"ALL", "NIL"} and not given:
            rule = "would keep your whole shell in the log"
            refuse("export", options["export"], rule, "name what the job needs: --export=A,B=2")
        if name != "NONE":
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
