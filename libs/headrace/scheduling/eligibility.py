"""Which machines take tasks of a shape at all, full or not.

Rule: what a machine is decides, never what is booked on it.
"""

from __future__ import annotations

from headrace.scheduling.gangs import Shape
from headrace.scheduling.machines import Machine, MachineSpec, takes


def is_eligible(shape: Shape, machine: Machine) -> bool:
    """Whether the machine takes tasks of this shape now."""
    if not machine.spec.accepting or not is_meant_for(shape, machine.spec):
        return False
    return not shape.devices or any(takes(shape, bank.kind) for bank in machine.banks)


def is_meant_for(shape: Shape, spec: MachineSpec) -> bool:
    """Whether its names, labels and taints let the shape be there."""
    if shape.only is not None and spec.name not in shape.only:
        return False
    if shape.labels and any(spec.labels.get(label) != value for label, value in shape.labels):
        return False
    return not spec.taints or all(taint in shape.tolerations for taint in spec.taints)
