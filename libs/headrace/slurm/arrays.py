"""Slurm's ways to write an array: `0-15`, `1-10:3`, `1,3,7-9`, each with `%4` behind it.

Rule: the tasks of a job file's array count from 0; in Slurm they have these numbers, in ascending
order. The launcher gives each task its number.
"""

from __future__ import annotations

import re

import msgspec

from headrace.documents.trials import TRIALS_MAX
from headrace.slurm.words import refuse

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_LIMIT = re.compile(r"\d{1,9}", re.ASCII)
_ACCEPTED = "0-15, 1-10:3, 1,3,7 and 0-15%4 are"


class Array(msgspec.Struct, frozen=True):
    """The numbers of the tasks as ranges, and how many run at a time (empty: all)."""

    ranges: tuple[range, ...]
    limit: str

    def field(self) -> str:
        """What the job file says: `0..9%4`."""
        return f"0..{len(self._numbers()) - 1}{'%' if self.limit else ''}{self.limit}"

    def env(self) -> dict[str, str]:
        """What each task is told of it."""
        numbers = self._numbers()
        step = self.ranges[0].step if len(self.ranges) == 1 else 1
        env = {
            "SLURM_ARRAY_TASK_ID": "${{ job.index }}",
            "SLURM_ARRAY_TASK_COUNT": str(len(numbers)),
            "SLURM_ARRAY_TASK_MIN": str(numbers[0]),
            "SLURM_ARRAY_TASK_MAX": str(numbers[-1]),
            "SLURM_ARRAY_TASK_STEP": str(step),
        }
        if numbers != list(range(len(numbers))):  # the launcher looks the index up in them
            env["BATCH_ARRAY"] = " ".join(f"{r.start}-{r.step}-{r[-1]}" for r in self.ranges)
        return env

    def _numbers(self) -> list[int]:
        return sorted({number for each in self.ranges for number in each})


def array(option: str, text: str) -> Array:
    """The array that `text` is. Raises `SlurmError`."""
    parts, has_limit, limit = text.partition("%")
    found = [_PART.fullmatch(part) for part in parts.split(",")]
    ranges = tuple(
        range(int(part[1]), int(part[2] or part[1]) + 1, int(part[3] or 1))
        for part in found
        if part is not None and int(part[3] or 1)
    )
    if len(ranges) < len(found) or not all(ranges) or (has_limit and not _LIMIT.fullmatch(limit)):
        refuse(option, text, "is no array", _ACCEPTED)
    if has_limit and not int(limit):
        refuse(option, text, "none at a time would never end", f"{parts}%1")
    if sum(len(each) for each in ranges) > TRIALS_MAX:
        refuse(option, text, f"an array has at most {TRIALS_MAX} tasks", f"0-{TRIALS_MAX - 1}")
    return Array(ranges, limit)
