"""`sbatch`: a batch script written for Slurm, submitted as it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.cli.exits import DONE, REFUSED, USAGE, printable, report
from headrace.client.client import Client
from headrace.slurm import OPTIONS, Batch, SlurmError, batch_of
from headrace.slurm.batch import SCRIPT_BYTES_MAX, script_of
from headrace.slurm.words import read_words

TOO_MANY = SCRIPT_BYTES_MAX + 1
HELP = """usage: headrace sbatch [OPTION…] [SCRIPT [ARGUMENT…]]    without a script: stdin
       headrace sbatch [OPTION…] --wrap COMMAND

submit a batch script written for Slurm. #SBATCH lines are read; what Headrace has no use for is
refused by name, with what to use instead. The project is --account, else that of the config file.

  headrace sbatch --gpus-per-node=2 --time=1:00:00 train.sh
  headrace sbatch --nodes=2 --wrap 'srun python train.py'

options:"""


def sbatch(words: Sequence[str], called: Callable[[str], str] = str) -> int:
    """Submit the script. Prints `Submitted batch job ID`, as scripts around `sbatch` expect, the job
    as it is `called` there.
    """
    try:
        said, _ = read_words(words)
        if {"help", "usage"} & said.keys():
            return _help()
        if not words and sys.stdin.isatty():
            return report("headrace sbatch: which script? (see headrace sbatch --help)", USAGE)
        batch = batch_of(words, _script(script_of(words)), os.environ)
    except SlurmError as error:
        for line in str(error).splitlines():
            report(f"refused: {line}", REFUSED)
        return REFUSED
    return _submit(batch, called)


def _submit(batch: Batch, called: Callable[[str], str]) -> int:
    from headrace.cli.files import checked, with_folder
    from headrace.cli.slurm_commands import with_ids

    account = str(batch.document.get("project", ""))
    client = Client.from_config(url="", token="", project=account)
    for remark in batch.remarks:
        report(f"sbatch: {remark}", DONE)
    document = with_folder({"project": client.project, **batch.document}, Path.cwd())
    document = with_ids(client, checked(document))
    if "test-only" in batch.switches:
        return DONE
    answer = client.submit(document)
    if "parsable" in batch.switches:
        print(printable(called(answer.job)), flush=True)
    elif "quiet" not in batch.switches:
        print(f"Submitted batch job {printable(called(answer.job))}", flush=True)
    if "wait" not in batch.switches:
        return DONE
    from headrace.cli.follow import follow_job

    return follow_job(client, answer.job, shows="end")


def _script(name: str) -> str:
    """The text of the script, which is read where this runs. Raises `SlurmError`."""
    try:
        if not name:
            return ""
        data = sys.stdin.buffer.read(TOO_MANY) if name == "-" else _read(name)
        errors = "strict" if len(data) < TOO_MANY else "replace"  # it is refused for its length
        return data.decode("utf-8-sig", errors).replace("\r\n", "\n")  # as Windows writes it
    except OSError as error:
        raise SlurmError(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SlurmError(f"{name}: is not text") from None


def _read(name: str) -> bytes:
    with open(name, "rb") as file:
        return file.read(TOO_MANY)


def _help() -> int:
    print(HELP)
    width = max(len(option.name) for option in OPTIONS)
    for option in OPTIONS:
        letter = f"-{option.letter}," if option.letter else ""
        what = option.field or f"no: {option.instead.removeprefix('nothing: ')}"
        print(f"  {letter:<4}--{option.name:<{width}}  {what}")
    return DONE
