"""The container engine behind its socket, as far as the agent needs it.

Rule: three things can happen to a question: it is answered, the engine says why not (`Denied`, and
`Gone` for what it does not know), or nobody answers (`Away`), which says nothing about what was asked.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import aiodocker
import aiohttp
import msgspec
from aiodocker.exceptions import DockerError, DockerStreamError
from aiodocker.execs import Exec

from headrace.node_agent.containers import cdi
from headrace.node_agent.containers.facts import OUTPUT_DRIVER, Facts

ANSWER_S = 30.0  # for what the engine does at once
CHANGE_S = 300.0  # to create, start or remove a container: a large image on a slow disk
UNREACHABLE = 900  # what aiodocker makes of a socket nobody listens on
NOT_FOUND, CONFLICT, SERVER_ERROR = 404, 409, 500
CHUNK_BYTES_MAX = 1_048_576  # of output, taken in one go
LIMITS = ("MemoryLimit", "CpuCfsQuota", "PidsLimit")  # what it says it can limit
_ABOUT = "X-Docker-Container-Path-Stat"
_FRAME = struct.Struct(">BxxxL")  # which stream, and how many bytes follow
_AT_LENGTH = 30  # 2006-01-02T15:04:05.000000000Z, then a blank


class Away(Exception):
    """Nobody answered."""


class Denied(Exception):
    """The engine does not do it, and says why."""


class Gone(Denied):
    """There is no such container or image."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A container as it is; `pid` is its first process, as the host counts (0: it does not run)."""

    running: bool
    exit_code: int
    oom: bool
    pid: int
    started: bool


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a container was made of: its image's id, and where in it something is mounted."""

    image: str
    targets: list[str]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A container that carries a label that was asked for."""

    container: str
    labels: dict[str, str]


class Engine:
    """One engine, at `unix:///path`."""

    def __init__(self, address: str) -> None:
        timeout = aiohttp.ClientTimeout(total=ANSWER_S)
        self._docker = aiodocker.Docker(url=address, timeout=timeout)
        self._slow = aiohttp.ClientTimeout(total=CHANGE_S)

    async def close(self) -> None:
        """Let go of the socket."""
        await self._docker.close()

    async def facts(self) -> Facts:
        """What it is and offers."""
        with asking():
            said = await self._docker.system.info()
        program, options = said.get("InitBinary") or "", said.get("SecurityOptions") or ()
        return Facts(
            name="podman" if said.get("BuildahVersion") else "docker",
            version=said.get("ServerVersion", ""),
            init=bool(program and shutil.which(program)),
            runtimes=tuple(sorted(said.get("Runtimes") or {})),
            live_restore=bool(said.get("LiveRestoreEnabled")),
            groups=said.get("CgroupDriver") or "",
            remapped=bool(said.get("Rootless")) or any("rootless" in option for option in options),
            keeps_output=OUTPUT_DRIVER in ((said.get("Plugins") or {}).get("Log") or ()),
            limits=f"cgroup{said.get('CgroupVersion', 1)}" if all(map(said.get, LIMITS)) else "",
            seccomp=any(map(_has_profile, options)),
            cdi=cdi.names_in(said.get("CDISpecDirs") or ()),
            device_files=cdi.device_files(),
        )

    async def found(self, label: str) -> list[Found]:
        """Every container with this `name=value`, running or not."""
        filters = json.dumps({"label": [label]})
        with asking():
            rows = await self._docker.containers.list(all=True, filters=filters)
        return [Found(container=row.id, labels=row["Labels"] or {}) for row in rows]

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        """Make the container of this name, unless it is there."""
        with contextlib.suppress(_Taken), asking():
            await self._docker.containers.create(dict(config), name=name)

    async def start(self, name: str) -> None:
        """Start it, unless it runs."""
        with asking():
            await self._docker.containers.container(name).start()

    async def state(self, name: str) -> State:
        """How it stands."""
        with asking():
            said = (await self._docker.containers.container(name).show())["State"]
        return State(
            running=bool(said["Running"]),
            exit_code=int(said["ExitCode"]),
            oom=bool(said.get("OOMKilled")),
            pid=int(said.get("Pid") or 0),
            started=not str(said.get("StartedAt", "")).startswith("0001-"),
        )

    async def made(self, name: str) -> Made:
        """What it was made of."""
        with asking():
            said = await self._docker.containers.container(name).show()
        mounts = said["HostConfig"].get("Mounts") or ()
        return Made(image=said["Image"], targets=[mount["Target"] for mount in mounts])

    async def is_link(self, name: str, path: str) -> bool:
        """Whether there is a link at the path, in its own file system. Raises `Gone` where nothing is."""
        with asking():
            ask = self._docker._query(f"containers/{name}/archive", params={"path": path})  # noqa: SLF001
            async with ask as response:  # of which the head tells it
                return bool(json.loads(b64decode(response.headers[_ABOUT])).get("linkTarget"))

    async def ended(self, name: str) -> None:
        """Return when it does not run."""
        with asking():
            await self._docker.containers.container(name).wait()

    async def signal(self, name: str, signal: str) -> None:
        """Send its first process a signal; nothing if it does not run."""
        with contextlib.suppress(_Taken), asking():
            await self._docker.containers.container(name).kill(signal=signal)

    async def remove(self, name: str) -> None:
        """End it and take it away; returns when it is gone. Raises `Denied` while it cannot be."""
        container = self._docker.containers.container(name)
        with contextlib.suppress(Gone), asking():
            await container.delete(force=True, v=True, timeout=self._slow)
        with contextlib.suppress(Gone):
            await self.state(name)
            raise Denied("it is still there")

    async def output(self, name: str, since: str) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        """What it wrote and writes since (`seconds.nanoseconds`), as pieces with their time, in
        batches, until it ends.
        """
        params: dict[str, int | str] = {
            "stdout": 1, "stderr": 1, "follow": 1, "timestamps": 1, "since": since,
        }  # fmt: skip
        path, endless = f"containers/{name}/logs", aiohttp.ClientTimeout()
        with asking():
            # aiodocker's own `log` takes output for text and forgets where its pieces end
            ask = self._docker._query(path, params=params, timeout=endless)  # noqa: SLF001
            async with ask as response:
                rest = b""
                while chunk := await response.content.read(CHUNK_BYTES_MAX):
                    pieces, rest = frames(rest + chunk)
                    if pieces:
                        yield pieces

    async def program(self, name: str, command: list[str], **of: Any) -> Exec:
        """A program beside what runs there, not started yet."""
        with asking():
            return await self._docker.containers.container(name).exec(command, **of)

    async def has(self, image: str) -> bool:
        """Whether the image is here."""
        with contextlib.suppress(Gone), asking():
            await self._docker.images.inspect(image)
            return True
        return False

    async def path_of(self, image: str) -> str:
        """The PATH that the image sets; empty when it sets none."""
        with asking():
            said = (await self._docker.images.inspect(image)).get("Config") or {}
        entries = (entry.partition("=") for entry in said.get("Env") or ())
        return next((value for name, _, value in entries if name == "PATH"), "")

    async def size_of(self, image: str) -> int:
        """Bytes of the image on this disk, with what it shares with others."""
        with asking():
            return int((await self._docker.images.inspect(image)).get("Size", 0))

    async def pull(self, image: str, auth: Mapping[str, str] | None) -> AsyncIterator[Any]:
        """Fetch it; what the engine says meanwhile."""
        endless = 86_400.0  # the caller has its own limit
        with asking():
            said = self._docker.images.pull(
                image, auth=dict(auth) if auth else None, stream=True, timeout=endless
            )
            async for line in said:
                yield line

    async def remove_image(self, image: str) -> None:
        """Take it away. Raises `Denied` while something uses it."""
        with contextlib.suppress(Gone), asking():
            await self._docker.images.delete(image)


class _Taken(Denied):
    """It is so already."""


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Says what came of a question in this module's words."""
    try:
        yield
    except DockerStreamError as error:
        raise Denied(error.message) from None
    except DockerError as error:
        if error.status >= UNREACHABLE:
            raise Away(error.message) from None
        if error.status == NOT_FOUND:
            raise Gone(error.message) from None
        raise (_Taken if error.status == CONFLICT else Denied)(error.message) from None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise Away(f"{type(error).__name__}: {error}") from None


def _has_profile(option: str) -> bool:
    """Whether this security option (`name=seccomp,profile=default`) is a profile for system calls."""
    words = option.split(",")
    return "name=seccomp" in words and "profile=unconfined" not in words


def frames(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The whole pieces of output in it, each with its time, and what is left over."""
    found, at = [], 0
    while len(data) - at >= _FRAME.size:
        _, length = _FRAME.unpack_from(data, at)
        start = at + _FRAME.size
        if len(data) - start < length:
            break
        piece = data[start : start + length]
        found.append((piece[:_AT_LENGTH], piece[_AT_LENGTH + 1 :]))
        at = start + length
    return found, data[at:]
