"""Binds workers to their devices, and keeps what that needs there as long as somebody needs it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from headrace.bus.agents import Assignment
from headrace.events.gangs import Share
from headrace.events.nodes import Device
from headrace.node_agent import folders
from headrace.node_agent.devices import Devices
from headrace.node_agent.enforcement import MIG, MPS, Bound, Limit, ladder, messages
from headrace.node_agent.enforcement.mps import Mps
from headrace.node_agent.machine import AttemptKey, End, Seen

OUTPUT_BYTES_MAX = 8_192  # of the end of a worker's output, looked at for why it failed
OUTPUTS_MAX = 16  # of one worker


class Enforcer:
    """One node's. `node_dir` is where attempts have their folders; without it nobody's processes
    are known. `mps` is None where there is none; `account_of` tells as which account (a number) a
    worker runs.
    """

    def __init__(
        self,
        devices: Devices,
        node_dir: Path | None = None,
        mps: Mps | None = None,
        account_of: Callable[[Assignment], int] = lambda _assignment: os.geteuid(),
    ) -> None:
        self._account_of = account_of
        self.devices, self._node_dir, self._mps = devices, node_dir, mps
        self._known: dict[str, Device] = {d.device: d for d in devices.list()}
        self._died: dict[str, None] = {}  # devices whose MPS daemon went away under its workers

    def know(self, devices: Iterable[Device]) -> None:
        """The devices as they are now."""
        self._known = {device.device: device for device in devices}

    def bind(self, assignment: Assignment) -> Bound:
        """How this worker is bound to its devices, as things stand."""
        shares = assignment.shares
        level = ladder.rung(
            shares,
            self._known,
            has_mps=self._is_served(assignment),
            can_watch=self.devices.can_watch and self._node_dir is not None,
        )
        limits = ladder.limits_of(shares, self._known)
        facts = self.devices.bind(shares, self._folder_of(assignment))
        pipes: tuple[str, ...] = ()
        if level == MPS and self._mps is not None:
            for device, limit in limits.items():
                facts |= self._mps.environment(device, *limit)
            pipes = tuple(str(self._mps.pipe(device)) for device in limits)
        caps, refused = ladder.caps_of(limits, self._known), self._refused(shares)
        denied = tuple(map(_kernels_name, refused))
        known = self.devices.files()
        files = dict.fromkeys(known[share.device] for share in shares if share.device in known)
        return Bound(level, facts, caps, denied, pipes, tuple(files), refused)

    def _folder_of(self, assignment: Assignment) -> str:
        """The worker's; empty where attempts have none."""
        if self._node_dir is None:
            return ""
        key = AttemptKey(assignment.job, assignment.attempt, assignment.rank)
        return str(self._node_dir / folders.name_of(key))

    def devices_of(self, shares: Sequence[Share]) -> list[Device]:
        """The devices of these shares that are known, in order."""
        return [self._known[share.device] for share in shares if share.device in self._known]

    def _refused(self, shares: Sequence[Share]) -> tuple[str, ...]:
        """The files of the devices that are not among these."""
        files = self.devices.files()
        own = {files.get(share.device) for share in shares}
        return tuple(filter(_kernels_name, sorted(set(files.values()) - own)))

    def is_ready(self, assignment: Assignment) -> bool:
        """Whether what would hold this worker is there, or cannot be had."""
        parts = ladder.parts_of(assignment.shares)
        if self._mps is None or len(assignment.shares) != 1 or not parts:
            return True
        device = parts[0].device
        known = self._known.get(device)
        is_ours = known is not None and known.kind == "nvml" and not known.profile
        if self._is_served(assignment) or self._mps.serves_another(
            device, self._account_of(assignment)
        ):
            return True  # by MPS, or, beside another account's workers, by the watch
        return not (is_ours and self._mps.may_serve(device))

    async def prepare(self, assignment: Assignment) -> None:
        """See to it; after this the assignment is ready."""
        if self._mps is not None:
            await self._mps.start(assignment.shares[0].device, self._account_of(assignment))

    def _is_served(self, assignment: Assignment) -> bool:
        """Whether MPS serves this worker's account all that it has a part of."""
        if self._mps is None or not ladder.parts_of(assignment.shares):
            return False
        account = self._account_of(assignment)
        return all(self._mps.serves(share.device, account) for share in assignment.shares)

    async def settle(self, live: Mapping[AttemptKey, Seen]) -> None:
        """Keep what these attempts need, and nothing else."""
        if self._mps is None:
            return
        needed = {
            s.device for seen in live.values() if seen.enforcement == MPS for s in seen.shares
        }
        self._died = {device: None for device in self._died if device in needed}
        self._died.update(dict.fromkeys(await self._mps.settle(needed)))

    def limits_of(self, shares: tuple[Share, ...]) -> dict[str, Limit]:
        """What a worker with these shares may hold of each shared device."""
        return ladder.limits_of(shares, self._known)

    def processes_of(self, key: AttemptKey) -> Iterable[int]:
        """The processes of a worker that runs here."""
        if self._node_dir is None:
            return ()
        return folders.processes_of(self._node_dir / folders.name_of(key))

    def told(self, key: AttemptKey, end: End, seen: Seen, held: dict[str, int]) -> End:
        """The end as its user is to read it: what it had, what was the limit, who held it."""
        limits = self.limits_of(seen.shares)
        if seen.enforcement == MIG:
            limits = {s.device: self._whole(s.device) for s in seen.shares}
        if not limits or not end.exit_code:
            return end
        if end.message == messages.STOPPED:
            return messages.overdrawn(end, limits, held)
        if messages.says_out_of_memory(self._output_of(key)):
            end = messages.explained(end, limits, seen.enforcement)
        return messages.bereft(end, [device for device in limits if device in self._died])

    def _whole(self, device: str) -> Limit:
        known = self._known.get(device)
        return Limit(ladder.WHOLE_MILLI, known.memory_bytes if known is not None else 0)

    def _output_of(self, key: AttemptKey) -> bytes:
        """The end of what it wrote."""
        if self._node_dir is None:
            return b""
        folder, found = self._node_dir / folders.name_of(key), []
        for process in range(OUTPUTS_MAX):
            try:
                file = os.open(folder / f"{process}.log", os.O_RDONLY | os.O_NOFOLLOW)
            except OSError:
                break
            try:
                start = max(0, os.fstat(file).st_size - OUTPUT_BYTES_MAX)
                found.append(os.pread(file, OUTPUT_BYTES_MAX, start))
            finally:
                os.close(file)
        return b"\n".join(found)


def _kernels_name(path: str) -> str:
    """A device file as the kernel names it (`c 195:3`); empty for one that is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    kind = "c" if stat.S_ISCHR(found.st_mode) else "b" if stat.S_ISBLK(found.st_mode) else ""
    return f"{kind} {os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" if kind else ""
