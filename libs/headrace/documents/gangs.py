"""The gang in a job file: how many nodes, and what each of them is asked for, by role or alike.

Rule: a role asks for its nodes in the words in which a job without roles asks for all of them.
"""

from __future__ import annotations

import re

import msgspec

from headrace.documents.accelerators import accelerators
from headrace.documents.job_file import JobFile, Number, Resources, RoleFile
from headrace.documents.mounts import mounts_of
from headrace.documents.names import level_of, name_of, pool_names
from headrace.documents.nearest import nearest
from headrace.documents.quantities import MILLI, byte_size, milli, whole
from headrace.documents.refusing import not_yet, refuse
from headrace.documents.workdir import python_of
from headrace.events.asked import Accelerator, Gang, Role

NODES_MAX = 1_024
ROLES_MAX = 16
PREFERENCES_MAX = 64  # ways in which the roles of a gang can be given kinds of GPUs
DEFAULT_CPU_MILLI = 1_000  # of a job without GPUs; one with GPUs is bounded by them

_ELASTIC = re.compile(r"([0-9]{1,9}) ?\.\. ?([0-9]{1,9})")


def gang_of(job: JobFile) -> Gang:
    """What the scheduler is asked for. Raises `DocumentError`."""
    required, preferred = job.topology.required, job.topology.preferred
    gang = _with_roles(job) if job.roles else _alike(job)
    return msgspec.structs.replace(
        gang,
        pools=pool_names("pools", job.pools),
        topology_required=required and level_of("topology.required", required),
        topology_preferred=preferred and level_of("topology.preferred", preferred),
        kind=job.type,
        contained=bool(job.image),
        python=python_of(job.python, job.image),
        volumes=tuple(dict.fromkeys(m.volume for m in mounts_of(job.volumes) if m.volume)),
    )


def _alike(job: JobFile) -> Gang:
    if job.succeeds_when:
        rule = "only a job with roles: succeeds by one of them"
        refuse("succeeds_when", rule, value=job.succeeds_when, instead="leave it out")
    file = RoleFile(
        nodes=job.nodes, resources=job.resources, processes_per_node=job.processes_per_node
    )
    asked = _role("", "", file)
    return Gang(
        **{name: getattr(asked, name) for name in asked.__struct_fields__ if name != "name"}
    )


def _with_roles(job: JobFile) -> Gang:
    plain = JobFile()
    for field in ("nodes", "resources", "processes_per_node"):
        if getattr(job, field) != getattr(plain, field):
            rule = "each role of a job with roles: has its own"
            refuse(field, rule, instead=f"roles: {{{next(iter(job.roles))}: {{{field}: …}}}}")
    if len(job.roles) > ROLES_MAX:
        refuse("roles", f"a job may have at most {ROLES_MAX}", value=len(job.roles))
    roles = tuple(
        _role(name_of(f"roles.{name}", name), f"roles.{name}.", role)
        for name, role in job.roles.items()
    )
    nodes, nodes_max = sum(r.nodes for r in roles), sum(max(r.nodes, r.nodes_max) for r in roles)
    if nodes_max > NODES_MAX:
        refuse("roles", f"a job has at most {NODES_MAX} nodes in all", value=nodes_max)
    choices = 1
    for role in roles:
        choices *= max(1, len(role.accelerators))
    if choices > PREFERENCES_MAX:
        rule = f"kinds of GPUs in order of preference come to at most {PREFERENCES_MAX} choices"
        refuse("roles", rule, instead="fewer kinds in fewer roles")
    if job.succeeds_when and job.succeeds_when not in job.roles:
        near = nearest(job.succeeds_when, job.roles)
        instead = f"did you mean {near}?" if near else ", ".join(job.roles)
        rule = "is not one of its roles"
        refuse("succeeds_when", rule, value=job.succeeds_when, instead=instead)
    return Gang(
        nodes=nodes,
        nodes_max=nodes_max if nodes_max > nodes else 0,
        roles=roles,
        succeeds_when=job.succeeds_when,
    )


def _role(name: str, path: str, file: RoleFile) -> Role:
    """What its nodes are asked for. `path` begins the names of its fields."""
    resources = file.resources
    kinds = accelerators(f"{path}resources.gpus", resources.gpus)
    gpu_memory = _gpu_memory(f"{path}resources.gpu_memory", resources, kinds)
    cpu = DEFAULT_CPU_MILLI if not kinds and not gpu_memory else 0
    if resources.cpu != "":
        cpu = milli(f"{path}resources.cpu", resources.cpu)
    memory = byte_size(f"{path}resources.memory", resources.memory) if resources.memory else 0
    nodes, nodes_max = _nodes(f"{path}nodes", file.nodes)
    return Role(
        name=name,
        nodes=nodes,
        accelerators=kinds,
        gpu_memory_bytes=gpu_memory,
        cpu_milli=cpu,
        memory_bytes=memory,
        per_gpu_processes=_per_gpu(f"{path}processes_per_node", file, kinds),
        nodes_max=nodes_max,
    )


def _gpu_memory(field: str, resources: Resources, kinds: tuple[Accelerator, ...]) -> int:
    if not resources.gpu_memory:
        return 0
    rule = instead = ""
    if any(kind.milli != MILLI for kind in kinds):
        rule, instead = "is memory of one GPU", "leave gpus out, or name one GPU (gpus: H100)"
    if any(kind.profile for kind in kinds):
        rule, instead = "shares cannot be cut from MIG slices", "leave it out"
    if rule:
        refuse(field, rule, value=resources.gpu_memory, instead=instead)
    return byte_size(field, resources.gpu_memory)


def _per_gpu(field: str, file: RoleFile, kinds: tuple[Accelerator, ...]) -> bool:
    value = file.processes_per_node
    if value == "per-gpu":
        if not kinds:
            rule = "there is no GPU to start a process for"
            refuse(field, rule, value="per-gpu", instead="resources: {gpus: 2}")
        if any(kind.milli != kinds[0].milli for kind in kinds):
            instead = "the same number of GPUs in every preference"
            not_yet(field, value="per-gpu", instead=instead)
        return True
    if str(value) != "1":
        instead = "1, and let the command start its own, or per-gpu"
        if str(value).isdecimal() and str(value) != "0":
            not_yet(field, value=value, instead=instead)
        refuse(field, "must be 1 or per-gpu", value=value, instead=instead)
    return False


def _nodes(field: str, value: Number) -> tuple[int, int]:
    """How many nodes at least, and up to how many an elastic gang grows (0: it does not)."""
    found = _ELASTIC.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return whole(field, value, 1, NODES_MAX), 0
    low, high = (whole(field, end, 1, NODES_MAX) for end in found.groups())
    if low > high:
        refuse(field, "the minimum is above the maximum", value=value, instead=f"{high}..{low}")
    return low, high if high > low else 0
