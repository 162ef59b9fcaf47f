"""Batch scripts written for Slurm, as job files.

Rule: pure, and nothing is ignored. An option is translated, or refused by its name with what to use
instead; `options.OPTIONS` is the list of all that `sbatch` has. The names and meanings are those of
Slurm's manual page of `sbatch` (version 25.05).
"""

from headrace.slurm.batch import Batch, batch_of
from headrace.slurm.options import OPTIONS, Option
from headrace.slurm.words import SlurmError

__all__ = ["OPTIONS", "Batch", "Option", "SlurmError", "batch_of"]
