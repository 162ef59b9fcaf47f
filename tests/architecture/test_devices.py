"""Whatever belongs to one vendor is in that vendor's files."""

from __future__ import annotations

from tests.architecture import sources

AGENT = sources.SERVICES / "node_agent"
OF_NVIDIA = ("devices/nv", "devices/simulated.py", "enforcement/mps.py", "pausing/")


def test_the_agent_speaks_of_cuda_only_where_it_speaks_to_nvidia() -> None:
    words = {
        path.relative_to(AGENT).as_posix()
        for path in AGENT.rglob("*.py")
        if "cuda" in path.read_text(encoding="utf-8").lower()
    }

    assert words  # it does somewhere
    assert {path for path in words if not path.startswith(OF_NVIDIA)} == set()


def test_only_a_driver_loads_its_vendors_library() -> None:
    loads = {
        path.relative_to(AGENT).as_posix(): word
        for path in AGENT.rglob("*.py")
        for word in ("import pynvml", "import amdsmi")
        if word in path.read_text(encoding="utf-8")
    }

    assert loads == {
        "devices/nvml.py": "import pynvml",
        "devices/amd.py": "import amdsmi",
        "pausing/cuda_helper.py": "import pynvml",  # in a process of its own
    }
