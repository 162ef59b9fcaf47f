"""From an assignment to an attempt that can be lived: what is meant, written down before it is done."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from headrace.bus.agents import Assignment, Launch
from headrace.node_agent import folders
from headrace.node_agent.containers import plan, record
from headrace.node_agent.containers.attempt import Held
from headrace.node_agent.containers.facts import Facts
from headrace.node_agent.containers.isolation import level_of
from headrace.node_agent.folders import Intent
from headrace.node_agent.gang_files import files_of
from headrace.node_agent.isolation.accounts import identity_of
from headrace.node_agent.isolation.cgroups import path_in_tree
from headrace.node_agent.machine import AttemptKey, Seen, Workplace
from headrace.node_agent.start_spec import MachineSettings
from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.deadline import warned_s
from headrace.node_agent.supervision.protocol import VERSION, WORK
from headrace.node_agent.worker_environment import place_of

CGROUPFS = "cgroupfs"  # an engine whose groups are where it is told; systemd's are below its slices


def meant(key: AttemptKey, assignment: Assignment, node_dir: Path) -> Held:
    """What is known of it before anything is done. Raises `ValueError` for an id that is none."""
    seen = Seen(
        phase="starting",
        project=assignment.project,
        traceparent=assignment.traceparent,
        shares=assignment.shares,
        replace_after_s=assignment.replace_after_s,
        isolation=folders.DOCKER,
    )
    intent = Intent(
        version=VERSION,
        boot=kernel.boot_id(),
        pid=0,
        job=key.job,
        attempt=key.attempt,
        rank=key.rank,
        project=assignment.project,
        traceparent=assignment.traceparent,
        enforcement="none",
        marker=secrets.token_hex(16),
        devices=[f"{share.device}:{share.milli}" for share in assignment.shares],
        replace_after_s=assignment.replace_after_s,
        checkpoint_signal=assignment.checkpoint_signal,
        checkpoint_grace_s=assignment.checkpoint_grace_s,
        isolation=folders.DOCKER,
        executor=folders.DOCKER,
    )
    kept = record.Kept(image="", grace_s=assignment.grace_s)
    folder = node_dir / folders.name_of(key)
    return Held(key, folder, plan.name_of(node_dir, key), seen, intent, kept)


def prepare(
    held: Held,
    assignment: Assignment,
    launch: Launch,
    place: Workplace,
    *,
    on: tuple[MachineSettings, Facts, str],
) -> None:
    """Plan it for this node and the engine there (and its address), and write that down. Raises
    `ValueError`, `OSError`.
    """
    settings, facts, engine = on
    around = _around(held, assignment, launch, place, settings=settings, facts=facts)
    held.config = lambda path: plan.config_of(assignment, launch, around, path=path)
    held.intent.enforcement, held.intent.outputs = around.bound.enforcement, list(place.outputs)
    loopback = bool(around.group)
    level = level_of(facts, around.account, loopback=loopback, shares_memory=around.shares_memory)
    held.intent.isolation = level = level + place.recorded
    held.group = settings.loopback if loopback else ""
    enforcement = around.bound.enforcement
    held.seen = msgspec.structs.replace(held.seen, enforcement=enforcement, isolation=level)
    held.kept = record.Kept(
        image=launch.image,
        grace_s=assignment.grace_s,
        checkpoint_signal=assignment.checkpoint_signal,
        warned_s=warned_s(assignment.max_duration_s, assignment.checkpoint_grace_s),
        engine=engine,
        max_duration_s=assignment.max_duration_s,
        memory_bytes=assignment.memory_bytes,
        init=facts.init,
        user=(around.account or around.own)[0],
    )
    files, account = around.files, around.account
    below = [
        target for _, target, _ in around.mounts if target.startswith(f"{held.folder}/{WORK}/")
    ]
    record.prepare(
        held.folder,
        held.intent,
        held.kept,
        place,
        files=files,
        account=account,
        mountpoints=[target.removeprefix(f"{held.folder}/") for target in below],
    )


def _around(
    held: Held,
    assignment: Assignment,
    launch: Launch,
    place: Workplace,
    *,
    settings: MachineSettings,
    facts: Facts,
) -> plan.Surroundings:
    bound = settings.bind(assignment)
    account = settings.accounts.of(assignment.user, assignment.account)
    files = files_of(place_of(assignment, launch, str(held.folder)), launch.framework)

    def at(text: str) -> str:
        return text.replace("{}", str(held.folder))

    behind = settings.loopback if account is not None and facts.groups == CGROUPFS else ""
    return plan.Surroundings(
        node=settings.node,
        node_dir=settings.node_dir,
        folder=held.folder,
        bound=bound,
        devices=settings.devices_of(assignment.shares),
        account=account,
        own=(os.geteuid(), os.getegid()),
        group=path_in_tree(behind) if behind else "",
        names=identity_of(account, settings.node_dir).env,
        facts=facts,
        files=files,
        cwd=place.cwd,
        mounts=[(at(source), at(target), ro) for source, target, ro in place.mounts],
        told={name: at(value) for name, value in place.env.items()},
        host_memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        marker=held.intent.marker,
    )
