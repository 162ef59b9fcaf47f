"""Which machines take tasks of a shape at all, full or not.

Rule: what a machine is decides, never what is booked on it.
"""

from __future__ import annotations

from headrace.scheduling.gangs import Gang, Shape
from headrace.scheduling.machines import Machine, takes


def is_eligible(shape: Shape, machine: Machine, *, closed: bool = False) -> bool:
    """Whether the machine takes tasks of this shape; `closed`: or would, if it accepted any."""
    spec = machine.spec
    if not spec.accepting and not closed:
        return False
    if shape.only is not None and spec.name not in shape.only:
        return False
    if shape.labels and any(spec.labels.get(label) != value for label, value in shape.labels):
        return False
    if spec.taints and not all(taint in shape.tolerations for taint in spec.taints):
        return False
    if shape.contained and not spec.has_engine:
        return False
    return not shape.devices or any(takes(shape, bank.kind) for bank in machine.banks)


def asked_by(gang: Gang, role: str) -> tuple[Shape, ...]:
    """What any task of the role may ask for, the best first."""
    if not gang.options:
        return tuple(dict.fromkeys(task.shape for task in gang.tasks.get(role, ())))
    at = [known.name for known in gang.roles].index(role)
    return tuple(dict.fromkeys(option[at] for option in gang.options))
