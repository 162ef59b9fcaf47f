"""`headrace slurm`: Slurm's commands for scripts and programs that call them.

Rule: what they print is what such programs read, in Slurm's words: a job is a number. Numbers are
found among the jobs that the platform lists; an id is taken too. Options that change nothing are
passed over, and one that would is named.
Source: the manual pages of sbatch, squeue, sacct and scancel (version 25.05).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.cli.exits import DONE, FAILED, USAGE, printable, report
from headrace.client.client import Client
from headrace.client.model import JobRow
from headrace.documents.frameworks.slurm import PROGRAMS, number_of

JOBS_MAX = 1_000  # looked at for a number, newest first
HELP = f"""usage: headrace slurm path              print a folder of Slurm's commands, for your own PATH
       headrace slurm COMMAND …         {", ".join(PROGRAMS[1:])}, as that folder has them

Slurm's commands for scripts that call them
"""
STATES = {
    "waiting": "PENDING", "held": "PENDING", "starting": "CONFIGURING", "running": "RUNNING",
    "stopping": "COMPLETING", "paused": "SUSPENDED", "succeeded": "COMPLETED", "failed": "FAILED",
    "cancelled": "CANCELLED", "refused": "FAILED",
}  # fmt: skip
SHORT = {
    "PENDING": "PD", "CONFIGURING": "CF", "RUNNING": "R", "COMPLETING": "CG", "SUSPENDED": "S",
    "COMPLETED": "CD", "FAILED": "F", "CANCELLED": "CA", "TIMEOUT": "TO",
}  # fmt: skip
_VALUED = ("-j", "--jobs", "--job", "-o", "--format", "-u", "--user", "-S", "--starttime", "-t",
           "--states", "-p", "--partition", "-A", "--account", "-n", "--name", "-s", "--signal")  # fmt: skip


def slurm(words: Sequence[str]) -> int:
    """Run one of the commands; its exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(HELP, end="")
        return DONE if words else USAGE
    command, *rest = words
    known: dict[str, Callable[[list[str]], int]] = {
        "path": _path, "sbatch": _sbatch, "squeue": _squeue, "sacct": _sacct,
        "scancel": _scancel, "sinfo": _sinfo, "scontrol": _scontrol, "srun": _srun,
    }  # fmt: skip
    if command not in known:
        return report(f"headrace slurm: {command} is not one of {', '.join(known)}", USAGE)
    return known[command](rest)


def _path(_: list[str]) -> int:
    """The folder, made if need be: each command is a line of shell."""
    home = os.environ.get("XDG_DATA_HOME")
    folder = (Path(home) if home else Path.home() / ".local" / "share") / "headrace" / "slurm"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        new = folder / f".{name}"
        new.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace.cli slurm {name} "$@"\n')
        new.chmod(0o755)
        new.replace(folder / name)
    print(folder)
    return DONE


def _sbatch(words: list[str]) -> int:
    from headrace.cli.batching import sbatch

    return sbatch(words, called=lambda job: str(number_of(job)))


def _srun(_: list[str]) -> int:
    line = "srun: outside of a job there is no allocation: sbatch --wrap 'srun …', or headrace run"
    return report(line, FAILED)


def _squeue(words: list[str]) -> int:
    said = _said(words)
    rows = [row for row in _rows(said.get("-j", "")) if not row.ended_at_us]
    header = not {"-h", "--noheader"} & said.keys()
    columns = _columns(said.get("-o", "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"))
    if header:
        print(printable(columns(None)))
    for row in rows:
        print(printable(columns(row)))
    return DONE


def _sacct(words: list[str]) -> int:
    """With `-o FIELDS --parsable2`, as submitit and others ask; else in columns."""
    said = _said(words)
    fields = said.get("-o", "JobID,JobName,Partition,Account,State,ExitCode").split(",")
    names = [field.partition("%")[0] for field in fields]
    is_parsable = bool({"-p", "-P", "--parsable", "--parsable2"} & said.keys())
    end = "|" if {"-p", "--parsable"} & said.keys() else ""
    lines = [] if {"-n", "--noheader"} & said.keys() else [names]
    lines += [[_value(row, name) for name in names] for row in _rows(said.get("-j", ""))]
    for line in lines:
        text = "|".join(line) + end if is_parsable else " ".join(f"{cell:>12}" for cell in line)
        print(printable(text))
    return DONE


def _scancel(words: list[str]) -> int:
    said = _said(words)
    wanted = [word for word in words if not word.startswith("-") and word not in said.values()]
    if not wanted:
        return report("scancel: which job?", USAGE)
    client, code = Client.from_config(), DONE
    for word in wanted:
        found = _found(client, word)
        if not found:
            code = report(f"scancel: {word}: no such job", FAILED)
        for row in found:
            if not row.ended_at_us:
                client.cancel(row.job)
    return code


def _sinfo(_: list[str]) -> int:
    print("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST")
    for pool in Client.from_config().pools():
        print(printable(f"{pool.name} up infinite {pool.nodes} idle -"))
    return DONE


def _scontrol(words: list[str]) -> int:
    if words[:2] in (["show", "job"], ["show", "jobid"]) and len(words) > 2:
        for row in _found(Client.from_config(), words[2]):
            print(printable(f"JobId={_value(row, 'JobID')} JobName={row.name}"))
            print(printable(f"   UserId={row.user} Account={row.project} JobState={_state(row)}"))
            print(printable(f"   NumNodes={len(row.where)} NodeList={','.join(row.where)}"))
        return DONE
    return report(f"scontrol: {' '.join(words)}: not known here; show job is", USAGE)


def _said(words: Sequence[str]) -> dict[str, str]:
    """Options by their names, the short ones of those with values."""
    found: dict[str, str] = {}
    rest = list(words)
    short = {"--jobs": "-j", "--job": "-j", "--format": "-o", "--user": "-u"}
    while rest:
        word = rest.pop(0)
        name, given, value = word.partition("=")
        if (
            not given
            and len(word) > 2
            and word[0] == "-"
            and word[:2] in _VALUED
            and word[1] != "-"
        ):
            name, value = word[:2], word[2:]
        elif not given and name in _VALUED and rest:
            value = rest.pop(0)
        if name.startswith("-"):
            found[short.get(name, name)] = value
    return found


def _rows(wanted: str) -> list[JobRow]:
    client = Client.from_config()
    if not wanted:
        return client.jobs(limit=JOBS_MAX).jobs
    return [row for word in wanted.split(",") for row in _found(client, word)]


def _found(client: Client, word: str) -> list[JobRow]:
    """The job that this number, or number of an array and of its task, or id, means."""
    number, _, task = word.partition("_")
    if not number.isdecimal():
        return [client.job(word).job]
    same = [row for row in client.jobs(limit=JOBS_MAX).jobs if number_of(row.job) == int(number)]
    return [client.job(f"{row.job}/{task}").job for row in same] if task.isdecimal() else same


def with_ids(client: Client, document: dict[str, Any]) -> dict[str, Any]:
    """The job file with ids where the jobs that it waits for are numbers."""
    for wait in document.get("after") or []:
        if str(wait["job"]).isdecimal() and (found := _found(client, wait["job"])):
            wait["job"] = found[0].job
    return document


def _state(row: JobRow) -> str:
    if row.state == "failed" and "timeout" in row.why:
        return "TIMEOUT"
    if row.state == "failed" and row.why.startswith(("node-lost", "oom")):
        return "NODE_FAIL" if row.why.startswith("node-lost") else "OUT_OF_MEMORY"
    return STATES.get(row.state, "RUNNING")


def _value(row: JobRow, name: str) -> str:
    job, _, task = row.job.partition("/")
    known = {
        "jobid": f"{number_of(job)}_{task}" if task else str(number_of(job)),
        "jobidraw": str(number_of(row.job)),
        "jobname": row.name,
        "partition": "-",
        "account": row.project,
        "user": row.user,
        "state": _state(row),
        "nodelist": ",".join(row.where),
        "exitcode": f"{row.exit_code or 0}:0",
        "elapsed": _clock(row.ran_us // 1_000_000),
        "elapsedraw": str(row.ran_us // 1_000_000),
        "nnodes": str(len(row.where)),
    }
    return known.get(name.lower(), "")


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _columns(text: str) -> Callable[[JobRow | None], str]:
    """What `squeue --format` prints of a job, or (None) above all."""
    titles = {"i": "JOBID", "A": "JOBID", "j": "NAME", "u": "USER", "P": "PARTITION", "t": "ST",
              "T": "STATE", "M": "TIME", "D": "NODES", "N": "NODELIST", "R": "NODELIST(REASON)"}  # fmt: skip
    fields = {"i": "JobID", "A": "JobIDRaw", "j": "JobName", "u": "User", "P": "Partition",
              "T": "State", "M": "Elapsed", "D": "NNodes", "N": "NodeList"}  # fmt: skip

    def printed(row: JobRow | None) -> str:
        def filled(found: re.Match[str]) -> str:
            dot, width, letter = found.groups()
            if row is None:
                value = titles.get(letter, "")
            elif letter == "t":
                value = SHORT.get(_state(row), "R")
            elif letter == "R":
                value = ",".join(row.where) or f"({row.why})"
            else:
                value = _value(row, fields.get(letter, ""))
            size = int(width or 0)
            value = value[:size] if size else value
            return value.rjust(size) if dot else value.ljust(size)

        return re.sub(r"%(\.?)(\d*)([A-Za-z])", filled, text)

    return printed
