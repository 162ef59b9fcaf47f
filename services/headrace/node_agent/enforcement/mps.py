"""NVIDIA's MPS: one control daemon per shared GPU, as long as somebody shares it.

Rule: a daemon has a folder of its own under the node's, and what is in that folder is the truth: an
agent that is started anew finds the daemons of the one before. The daemon is a child of nobody: like
the workers that need it, it outlives the agent. A daemon serves one account: it lets another's
processes wait until the first one's have all ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

PROGRAM = "nvidia-cuda-mps-control"
DEVICE = "device"  # the file in a daemon's folder that names what it serves, and whom
START_S = 5.0  # for a daemon to answer
QUIT_S = 5.0
LOOK_S = 0.02  # between two looks at whether it is there
LINGER_S = 10.0  # a daemon stays after it was last asked for: who asked may not have started yet
AGAIN_S = 60.0  # before a device is tried again whose daemon did not start

_LOG = logging.getLogger("headrace.node_agent")


class Mps:
    """The daemons of one node."""

    def __init__(self, folder: Path, program: str = PROGRAM) -> None:
        self._folder = folder
        self.program = shutil.which(program)
        self._serving: dict[str, int] = {}  # device: pid of its daemon
        self._accounts: dict[str, int] = {}  # device: whom its daemon serves
        self._asked_s: dict[str, float] = {}
        self._tried_s: dict[str, float] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}

    def may_serve(self, device: str) -> bool:
        """Whether it is worth asking for this device."""
        tried_s = self._tried_s.get(device)
        return self.program is not None and (tried_s is None or _now_s() - tried_s >= AGAIN_S)

    def serves(self, device: str, account: int) -> bool:
        """Whether a daemon of ours serves it to this account (a number) now."""
        return device in self._serving and self._accounts.get(device) == account

    def serves_another(self, device: str, account: int) -> bool:
        """Whether a daemon of ours serves it to another account now."""
        return device in self._serving and self._accounts.get(device) != account

    async def start(self, device: str, account: int) -> None:
        """Make a daemon serve this device to this account, or note that none does; one that serves
        it to another stays.
        """
        task = self._starting.get(device)
        if task is None and not self.serves_another(device, account):
            self._asked_s[device] = _now_s()
            task = self._starting[device] = asyncio.create_task(self._start(device, account))
            task.add_done_callback(lambda _done: self._starting.pop(device, None))
        if task is not None:
            await asyncio.shield(task)

    async def settle(self, needed: Collection[str]) -> list[str]:
        """End the daemons nobody needs; the devices whose daemon has died although needed."""
        died = []
        for device in sorted({*self._found(), *self._serving, *needed}):
            alive = self._alive(device)
            if alive and device in needed:
                self._serving[device] = alive  # also one of an earlier agent
                self._accounts[device] = self._account_of(device)
            elif not alive and self._serving.pop(device, 0):
                died.append(device)
                _LOG.error("the MPS daemon of a shared GPU has died device=%s", device)
            if device not in needed and _now_s() - self._asked_s.get(device, 0.0) >= LINGER_S:
                self._serving.pop(device, None)
                await self._quit(device)
        return died

    async def end_all(self) -> None:
        """End every daemon, whoever needs it."""
        for device in self._found():
            self._serving.pop(device, None)
            await self._quit(device)

    def environment(self, device: str, milli: int, memory_bytes: int) -> dict[str, str]:
        """What binds a process to this device's daemon, and limits what it gets of it."""
        self._asked_s[device] = _now_s()
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe(device)),
            "CUDA_MPS_LOG_DIRECTORY": str(self.pipe(device)),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, -(-milli // 10))),
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={memory_bytes // 2**20}M",
        }

    async def _start(self, device: str, account: int) -> None:
        if not self._alive(device):
            await self._spawn(device, account)
        pid = self._alive(device)
        if pid:
            self._serving[device] = pid
            self._accounts[device] = self._account_of(device)
            self._tried_s.pop(device, None)
            return
        self._tried_s[device] = _now_s()
        _LOG.warning("no MPS daemon for a shared GPU device=%s", device)

    async def _spawn(self, device: str, account: int) -> None:
        """Start it and wait until it is there, at most `START_S`."""
        pipe = self.pipe(device)
        shutil.rmtree(pipe, ignore_errors=True)  # of one that has died: clients would wait for it
        pipe.mkdir(mode=0o755, parents=True)
        (pipe / DEVICE).write_text(f"{device} {account}")
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(START_S):
                await self._ask(device, ["-d"], b"")
                while not self._alive(device):  # noqa: ASYNC110  a file nobody tells of
                    await asyncio.sleep(LOOK_S)

    def _found(self) -> list[str]:
        """The devices that have a folder, whoever made it."""
        found = []
        for path in sorted(self._folder.glob(f"*/{DEVICE}")):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                found.append(path.read_text().partition(" ")[0])
        return found

    def _account_of(self, device: str) -> int:
        """Whom the daemon in this device's folder was started for; -1 where that is not known."""
        try:
            return int((self.pipe(device) / DEVICE).read_text().partition(" ")[2])
        except (OSError, ValueError):
            return -1

    async def _quit(self, device: str) -> None:
        if self._alive(device):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(QUIT_S):
                    await self._ask(device, [], b"quit\n")
        if not self._alive(device):
            shutil.rmtree(self.pipe(device), ignore_errors=True)

    async def _ask(self, device: str, arguments: list[str], said: bytes) -> None:
        """Run the control program once. Raises `OSError` when it cannot be."""
        pipe = str(self.pipe(device))
        process = await asyncio.create_subprocess_exec(
            str(self.program),
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "CUDA_VISIBLE_DEVICES": device,
                "CUDA_MPS_PIPE_DIRECTORY": pipe,
                "CUDA_MPS_LOG_DIRECTORY": pipe,
            },
        )
        await process.communicate(said)

    def _alive(self, device: str) -> int:
        """The pid of the daemon in this device's folder; 0 when there is none."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.pipe(device) / f"{PROGRAM}.pid").read_text())
            name = Path(f"/proc/{pid}/cmdline").read_bytes()
            return pid if PROGRAM.encode() in name else 0
        return 0

    def pipe(self, device: str) -> Path:
        """Where its clients reach the daemon: short, for the name of a socket has at most 107
        characters.
        """
        return self._folder / hashlib.sha256(device.encode()).hexdigest()[:8]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
