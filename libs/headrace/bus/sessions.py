"""Sessions: somebody's way into a running worker, over the bus, through the node that runs it.

Rule: the bus may lose a message, so each is numbered: one that is missing ends the session, for
what a person typed must not arrive with holes. Neither end sends more than a window ahead of what
the other has taken, so that nobody is flooded.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from headrace.bus.interface import Bus, BusError, Message, Subscription

WINDOW_BYTES = 524_288  # sent and not yet taken by the other end
DATA_BYTES_MAX = 32_768  # of one frame
FRAMES_WAITING_MAX = 4_096  # received and not yet asked for; who sends more is broken
BEAT_S = 5.0
SILENCE_S_MAX = 20.0
OPEN_S_MAX = 10.0  # for the node to answer

WAYS = ("exec", "attach", "port-forward")


class Enter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Asks a node's agent for a way into a worker. `session` is a fresh token, known to nobody else.

    `exec` runs `command` beside the worker, on a terminal of `rows` × `columns` if there are any;
    `attach` follows what its `process` writes; `port-forward` connects to its TCP `port`.
    """

    session: str
    way: str
    job: str
    attempt: int
    rank: int
    process: int = 0
    command: tuple[str, ...] = ()
    rows: int = 0
    columns: int = 0
    port: int = 0


class Entered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer: `refused` says why not."""

    refused: str = ""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """What travels in a session, both ways. `kind` and what goes with it:

    `data` (bytes of standard input or output, or of the connection), `error` (bytes of standard
    error), `size` (value: rows × 65,536 + columns), `eof` (no data follows from this side), `exit`
    (value: the exit code; data: one line for people). Between the two ends of a `Wire` also `taken`
    (value: bytes taken so far), `beat`, and `gone`, the last word.
    """

    kind: str
    data: bytes = b""
    value: int = 0
    number: int = 0


class Broken(Exception):
    """The other end has gone, or something between got lost. The message says which."""


def size_frame(rows: int, columns: int) -> Frame:
    """The terminal has this size now."""
    return Frame("size", value=(rows << 16) + columns)


def size_of(frame: Frame) -> tuple[int, int]:
    """Rows and columns."""
    return frame.value >> 16, frame.value & 0xFFFF


class Wire:
    """One end of a session: frames in order, at the pace of the slower."""

    def __init__(self, bus: Bus, *, send_to: str, hear_from: str) -> None:
        self._bus, self._to, self._from = bus, send_to, hear_from
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue(FRAMES_WAITING_MAX)
        self._room = asyncio.Event()
        self._sent = self._sent_bytes = self._acknowledged = 0
        self._heard = self._taken = self._told = 0
        self._lost = ""
        self._last_s = 0.0
        self._subscription: Subscription | None = None
        self._beating: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listen. Raises `BusError`."""
        self._last_s = asyncio.get_running_loop().time()
        self._subscription = await self._bus.subscribe(self._from, self._receive)
        self._beating = asyncio.create_task(self._beat())

    async def send(self, frame: Frame) -> None:
        """Send once the other end has room for it. Raises `Broken`."""
        while self._sent_bytes + len(frame.data) > self._acknowledged + WINDOW_BYTES:
            self._room.clear()
            self._check()
            await self._room.wait()
        self._check()
        self._sent += 1
        self._sent_bytes += len(frame.data)
        await self._publish(msgspec.structs.replace(frame, number=self._sent))

    async def receive(self) -> Frame:
        """The next frame of the other end. Raises `Broken`."""
        frame = await self._frames.get()
        if frame is None:
            self._end(self._lost)
            raise Broken(self._lost)
        self._taken += len(frame.data)
        if self._taken - self._told >= WINDOW_BYTES // 4:
            self._told = self._taken
            await self._publish(Frame("taken", value=self._taken))
        return frame

    async def close(self) -> None:
        """Leave, and say so."""
        with contextlib.suppress(Broken):
            await self._publish(Frame("gone"))
        self._end("closed")
        if self._beating is not None:
            self._beating.cancel()
        if self._subscription is not None:
            await self._subscription.stop()

    async def _receive(self, message: Message) -> None:
        self._last_s = asyncio.get_running_loop().time()
        try:
            frame = msgspec.msgpack.decode(message.data, type=Frame)
        except msgspec.MsgspecError as error:
            self._end(f"what came is no frame: {error}")
            return
        if frame.kind == "taken":
            self._acknowledged = frame.value
            self._room.set()
        elif frame.kind == "gone":
            self._end("the other end has left")
        elif frame.kind != "beat":
            self._heard += 1
            if frame.number != self._heard:
                self._end("a message was lost on the way")
            elif self._frames.qsize() >= FRAMES_WAITING_MAX - 1:
                self._end("the other end sent more than was taken")
            else:
                self._frames.put_nowait(frame)

    async def _beat(self) -> None:
        """Say that this end is there, and notice when the other is not."""
        loop = asyncio.get_running_loop()
        while not self._lost:
            await asyncio.sleep(BEAT_S)
            if loop.time() - self._last_s > SILENCE_S_MAX:
                self._end("the other end has gone")
                return
            with contextlib.suppress(Broken):
                await self._publish(Frame("beat"))

    def _check(self) -> None:
        if self._lost:
            raise Broken(self._lost)

    def _end(self, why: str) -> None:
        """Whoever waits learns why; what was received before is still given out."""
        self._lost = self._lost or why
        self._room.set()
        with contextlib.suppress(asyncio.QueueFull):
            self._frames.put_nowait(None)

    async def _publish(self, frame: Frame) -> None:
        try:
            await self._bus.publish(self._to, msgspec.msgpack.encode(frame))
        except BusError as error:
            self._end("the bus is gone")
            raise Broken("the bus is gone") from error
