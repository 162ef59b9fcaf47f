"""How a job saves itself when it is asked to end: by which signal, in what time, and where to.

Rule: a signal that cannot be caught, or that means something else to every program, is none.
"""

from __future__ import annotations

from headrace.documents.job_file import CheckpointPart
from headrace.documents.quantities import duration_us
from headrace.documents.refusing import refuse
from headrace.events.jobs import Checkpoint

ALONE = (
    "B:"  # before a signal that is for the command alone, and nothing that it started: as in sbatch
)
SIGNALS = ("USR1", "USR2", "TERM", "INT", "HUP")
GRACE_US_MAX = 3_600_000_000
DIR_LENGTH_MAX = 1_024


def checkpoint_of(part: CheckpointPart | None) -> Checkpoint | None:
    """What the job file asks for; None when it does not save itself. Raises `DocumentError`."""
    if part is None:
        return None
    to, name = part.signal[: len(ALONE)], part.signal.removeprefix(ALONE).removeprefix("SIG")
    if name not in SIGNALS:
        rule = "is not a signal that a job can save itself at"
        refuse("checkpoint.signal", rule, value=part.signal, instead=", ".join(SIGNALS))
    grace_us = duration_us("checkpoint.grace", part.grace)
    if not 0 < grace_us <= GRACE_US_MAX:
        refuse("checkpoint.grace", "must be more than 0s and at most 1h", value=part.grace)
    return Checkpoint(signal=f"{ALONE}{name}" if to == ALONE else name, grace_us=grace_us)


def environment_of(part: CheckpointPart | None) -> dict[str, str]:
    """What tells the job where to save itself, where it says so. Raises `DocumentError`."""
    if part is None or not part.dir:
        return {}
    if not part.dir.startswith("/") or len(part.dir) > DIR_LENGTH_MAX or not part.dir.isprintable():
        rule = "must be an absolute path"
        refuse("checkpoint.dir", rule, value=part.dir[:80], instead="/ckpt")
    return {"HEADRACE_CHECKPOINT_DIR": part.dir}
