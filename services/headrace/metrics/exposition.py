"""The fleet's numbers as Prometheus reads them.

Rule: rendered from the state and the last samples when somebody asks; nothing is kept for it. The
leader alone shows them: two instances would count every GPU twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.bus.agents import Reported
from headrace.metrics.state import WAIT_BUCKETS_MS, State, Waits

_SPECIAL = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}  # as Prometheus writes them
Labels = tuple[tuple[str, str], ...]


def text(
    state: State,
    busy_permille: Mapping[tuple[str, str], int],
    progress: Iterable[Reported] = (),
) -> str:
    """The page. `busy_permille` is by node and device, as the agents last said; of a node that is not
    heard it is not shown. `progress` is what running workers said of themselves.
    """
    lines: list[str] = []
    jobs = _flat(state.counts, "state")
    _family(lines, "headrace_jobs", "gauge", "live jobs by state", jobs)
    ended = _flat(state.ended, "outcome")
    _family(lines, "headrace_jobs_finished_total", "counter", "ended jobs", ended)
    capacity = sum(node.milli for node in state.nodes.values())
    _family(lines, "headrace_gpu_milli_capacity", "gauge", "of the fleet", [((), str(capacity))])
    allocated = [(_project(name), str(n)) for name, n in sorted(state.allocated_milli.items())]
    _family(lines, "headrace_gpu_milli_allocated", "gauge", "held now", allocated)
    nodes = [(_node(name), str(int(not m.silent))) for name, m in sorted(state.nodes.items())]
    _family(lines, "headrace_node_heard", "gauge", "1 when the node is heard", nodes)
    used = [(_project(name), _gpu_seconds(n)) for name, n in sorted(state.used_milli_us.items())]
    _family(lines, "headrace_usage_gpu_seconds_total", "counter", "GPU-seconds released", used)
    attempts = [(_project(name), str(n)) for name, n in sorted(state.attempts.items())]
    _family(lines, "headrace_attempts_total", "counter", "attempts released", attempts)
    busy = [
        ((*_node(node), ("device", device)), _decimal(permille, 3))
        for (node, device), permille in sorted(busy_permille.items())
        if node in state.nodes and not state.nodes[node].silent
    ]
    _family(lines, "headrace_device_busy_ratio", "gauge", "last sample", busy)
    _waits(lines, state.waits)
    _family(lines, "headrace_worker_reported", "gauge", "last said", _reported(progress))
    return "\n".join(lines) + "\n"


def _family(
    lines: list[str], name: str, kind: str, about: str, samples: Iterable[tuple[Labels, str]]
) -> None:
    lines.append(f"# HELP {name} {about}")
    lines.append(f"# TYPE {name} {kind}")
    lines.extend(f"{name}{_labels(labels)} {value}" for labels, value in samples)


def _waits(lines: list[str], waits: Mapping[str, Waits]) -> None:
    name = "headrace_wait_seconds"
    lines.append(f"# HELP {name} from admission to the start of the first attempt")
    lines.append(f"# TYPE {name} histogram")
    for project, waited in sorted(waits.items()):
        total = 0
        bounds = [_decimal(bound_ms, 3) for bound_ms in WAIT_BUCKETS_MS] + ["+Inf"]
        for bound, count in zip(bounds, waited.counts, strict=True):
            total += count
            lines.append(f"{name}_bucket{_labels((*_project(project), ('le', bound)))} {total}")
        lines.append(f"{name}_sum{_labels(_project(project))} {_decimal(waited.total_us, 6)}")
        lines.append(f"{name}_count{_labels(_project(project))} {total}")


def _reported(progress: Iterable[Reported]) -> Iterator[tuple[Labels, str]]:
    for said in sorted(progress, key=lambda said: (said.job, said.attempt, said.rank)):
        worker = (*_project(said.project), ("job", said.job), ("rank", str(said.rank)))
        for name in sorted(said.values):
            yield (*worker, ("name", name)), _SPECIAL.get(said.values[name], said.values[name])


def _flat(counts: Mapping[str, Mapping[str, int]], label: str) -> Iterator[tuple[Labels, str]]:
    for project in sorted(counts):
        for name in sorted(counts[project]):
            yield (*_project(project), (label, name)), str(counts[project][name])


def _project(name: str) -> Labels:
    return (("project", name),)


def _node(name: str) -> Labels:
    return (("node", name),)


def _labels(labels: Labels) -> str:
    quoted = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + ",".join(quoted) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _gpu_seconds(milli_us: int) -> str:
    return _decimal(milli_us, 9)


def _decimal(value: int, digits: int) -> str:
    """`value` in units of 10^-digits, exactly."""
    whole, part = divmod(value, 10**digits)
    return f"{whole}.{part:0{digits}d}".rstrip("0").rstrip(".") if part else str(whole)
