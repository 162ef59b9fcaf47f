"""What a gang asks for, in a few characters."""

from __future__ import annotations

from headrace.events.asked import Accelerator, Gang

_MEMORY_UNIT = 1_000_000_000


def wants(gang: Gang) -> str:
    """What a gang asks for, in a few characters: `0.5`, `2`, `2×H100:8`, `2..8×4cpu`,
    `ps 8cpu + worker 2..6×1`.
    """
    if gang.roles:
        return " + ".join(f"{name} {wants(part)}" for name, part in gang.by_role().items())
    choices = " | ".join(_accelerator(choice) for choice in gang.accelerators)
    if gang.gpu_memory_bytes:
        choices = f"{gang.gpu_memory_bytes // _MEMORY_UNIT}GB"
    if not choices:
        choices = f"{milli(gang.cpu_milli)}cpu" if gang.cpu_milli else "–"
    if gang.nodes_max > gang.nodes:
        return f"{gang.nodes}..{gang.nodes_max}×{choices}"
    return choices if gang.nodes == 1 else f"{gang.nodes}×{choices}"


def milli(amount: int) -> str:
    """Thousandths as people write them: 2000 is `2`, 250 is `0.25`."""
    whole, rest = divmod(amount, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def _accelerator(choice: Accelerator) -> str:
    size = f"{choice.memory_bytes_min // _MEMORY_UNIT}GB" if choice.memory_bytes_min else ""
    kind = ":".join(part for part in (choice.model, size) if part)
    return f"{kind}:{milli(choice.milli)}" if kind else milli(choice.milli)
