"""What people write: job files and administrators' documents, understood or refused.

Rule: pure, and the same for everyone. The command line refuses with it before sending and the
services refuse with it on receiving, in the same words. Text is read apart, by `yaml_text`.
"""

from headrace.documents.fleet import (
    read_fleet,
    read_pool,
    read_queue,
    read_scheduling,
    read_template,
    read_volume,
    read_webhook,
)
from headrace.documents.job_file import (
    JobFile,
    Resources,
    Sweep,
    read_job,
    read_job_json,
    read_json,
)
from headrace.documents.plan import PRIORITIES, Plan, plan
from headrace.documents.refusing import with_line
from headrace.documents.substitution import substitute, variable_of
from headrace.documents.trials import Draws, Tasks, draw

__all__ = [
    "PRIORITIES",
    "Draws",
    "JobFile",
    "Plan",
    "Resources",
    "Sweep",
    "Tasks",
    "draw",
    "plan",
    "read_fleet",
    "read_job",
    "read_job_json",
    "read_json",
    "read_pool",
    "read_queue",
    "read_scheduling",
    "read_template",
    "read_volume",
    "read_webhook",
    "substitute",
    "variable_of",
    "with_line",
]
