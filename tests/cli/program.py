"""The command line as a program, and the gateway's world it talks to."""

import asyncio
import signal

TIMEOUT_S = 60.0
AGAIN_S = 15.0


class Program:
    """One run of the command line."""

    def __init__(self, process):
        self._process = process

    async def line(self) -> str:
        """The next line it prints."""
        line = await asyncio.wait_for(self._process.stdout.readline(), TIMEOUT_S)
        return line.decode().rstrip("\n")

    async def complaint(self) -> bytes:
        """The next line on stderr."""
        return await self._process.stderr.readline()

    async def end(self) -> tuple[int, str, str]:
        """Its exit code, and what else it printed on stdout and stderr."""
        out, err = await asyncio.wait_for(self._process.communicate(), TIMEOUT_S)
        assert "Traceback" not in err.decode()
        return self._process.returncode, out.decode(), err.decode()

    async def interrupt(self) -> None:
        """Ctrl-C; once more if it came just before the program began to wait, which Python may
        then not notice until what it waits for happens.
        """
        self._process.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(self._process.wait(), AGAIN_S)
        except TimeoutError:
            self._process.send_signal(signal.SIGINT)


async def in_log(world, *events):
    position = await world.append(*events)
    await world.gateway.follower.reached(position)


def accept(world, verb, **answer):
    return world.answer(verb, lambda _: {"accepted": True, "position": 0, **answer})
