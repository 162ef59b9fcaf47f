"""The names of GPUs: what drivers call them, as job files have it."""

from __future__ import annotations


def model_of(name: str, memory_bytes: int) -> str:
    """The driver's name as job files have it: `NVIDIA H100 80GB HBM3` is `H100-80GB`.

    The size is the smallest marketed one that holds what the driver found: names leave it out, or
    mean other memory.
    """
    words = [word for word in name.replace("-", " ").split() if word not in _MAKERS] or ["GPU"]
    model = "".join(words[:2]) if words[0] in _SERIES else words[0]
    gibibytes = memory_bytes * 995 // 1000 / 2**30  # drivers round up a little
    marketed = next((size for size in _MARKETED if size >= gibibytes), round(gibibytes))
    return f"{model}-{marketed}GB"


_MAKERS = {"NVIDIA", "Tesla", "Quadro", "GeForce", "AMD", "Instinct", "Radeon"}
_SERIES = {"RTX", "GTX", "TITAN", "Graphics", "RX", "PRO"}
_MARKETED = (
    4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180, 192, 256, 288,
)  # fmt: skip
