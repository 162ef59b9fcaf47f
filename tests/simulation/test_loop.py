"""The virtual loop and the processes on it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest

from headrace.simulation.loop import Stuck, VirtualLoop, run
from headrace.simulation.processes import Killed, Process, own
from headrace.simulation.surroundings import EPOCH_US, seeded


def on_virtual_loop(program):
    """Run a coroutine function on a new virtual loop; its result and the virtual time."""
    loop = VirtualLoop()
    loop.on_task = own
    return run(program(), loop), loop.time()


def test_waiting_costs_no_time() -> None:
    async def wait() -> None:
        await asyncio.sleep(86_400)

    began_s = time.monotonic()
    _, virtual_s = on_virtual_loop(wait)

    assert virtual_s == 86_400
    assert time.monotonic() - began_s < 60


def test_timers_fire_in_the_order_of_their_times() -> None:
    fired: list[int] = []

    async def program() -> None:
        loop = asyncio.get_running_loop()
        for delay_s in (3, 1, 2):
            loop.call_later(delay_s, fired.append, delay_s)
        await asyncio.sleep(5)

    on_virtual_loop(program)

    assert fired == [1, 2, 3]


def test_timeouts_are_virtual_too() -> None:
    async def program() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 10)

    assert on_virtual_loop(program)[1] == 10


def test_a_program_that_can_never_go_on_is_told_so() -> None:
    async def program() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        on_virtual_loop(program)


def test_an_unheard_error_is_kept() -> None:
    loop = VirtualLoop()

    async def program() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    run(program(), loop)

    assert loop.errors == ["ZeroDivisionError: integer division or modulo by zero"]


def test_sets_of_tasks_keep_the_order_in_which_tasks_were_made() -> None:
    program = (
        "import asyncio\nfrom headrace.simulation.loop import VirtualLoop, run\n"
        "async def nap(): await asyncio.sleep(1)\n"
        "async def main():\n"
        "    tasks = {asyncio.get_running_loop().create_task(nap(), name=f't{i}') for i in range(50)}\n"
        "    print([t.get_name() for t in tasks])\n"
        "run(main(), VirtualLoop())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }

    assert len(told) == 1
    assert "t0" in told.pop()


def test_a_killed_process_does_nothing_more() -> None:
    did: list[str] = []
    ended: list[BaseException | None] = []

    async def child() -> None:
        while True:
            await asyncio.sleep(1)
            did.append("child")

    async def program() -> None:
        process = Process("p", lambda _process, error: ended.append(error))

        async def main() -> None:
            asyncio.get_running_loop().create_task(child())
            await asyncio.sleep(100)

        process.on_kill(lambda: did.append("cut"))
        process.start(main())
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(10)

    on_virtual_loop(program)

    assert did == ["child", "child", "cut"]
    assert [type(error) for error in ended] == [Killed]


def test_a_process_that_fails_tells_its_error_and_takes_its_tasks_along() -> None:
    ended: list[BaseException | None] = []
    left: list[int] = []

    async def forever() -> None:
        await asyncio.sleep(1_000)

    async def program() -> None:
        async def main() -> None:
            asyncio.get_running_loop().create_task(forever())
            await asyncio.sleep(1)
            raise OSError("gone")

        Process("p", lambda _process, error: ended.append(error)).start(main())
        await asyncio.sleep(5)
        left.append(len(asyncio.all_tasks()))

    on_virtual_loop(program)

    assert [str(error) for error in ended] == ["gone"]
    assert left == [1]


def test_clocks_and_chance_come_from_the_seed() -> None:
    def drawn(seed: int):
        with seeded(seed, lambda: 2.0):
            return os.urandom(8), time.time(), time.monotonic()

    assert drawn(1) == drawn(1)
    assert drawn(1)[0] != drawn(2)[0]
    assert drawn(1)[1] == EPOCH_US / 1e6 + 2.0
    assert abs(time.time() - EPOCH_US / 1e6) > 2.0
