"""Requests of several projects wait in lanes that are served in turn."""

from __future__ import annotations

import asyncio

import pytest

from headrace.runtime.lanes import SERVED_AT_ONCE, Lanes

from .rig import until, virtual

pytestmark = pytest.mark.security


class Served:
    """Lanes that are served one step at a time."""

    def __init__(self):
        self.order = []
        self.steps = asyncio.Semaphore(0)
        self.lanes = Lanes(self._room)

    async def _room(self):
        await self.steps.acquire()

    def wait(self, project, number, size=0):
        async def serve():
            self.order.append((project, number))

        self.lanes.add(project, serve, size)

    async def step(self, count):
        for _ in range(count):
            self.steps.release()
        await until(self.steps.locked)


@virtual
async def test_projects_are_served_in_turn_and_each_in_its_own_order():
    served = Served()
    for number in range(1_000):
        served.wait("noisy", number)
    for number in range(3):
        served.wait("quiet", number)
    served.lanes.open()
    await served.step(8)
    assert [number for project, number in served.order if project == "quiet"] == [0, 1, 2]
    await served.step(992)
    noisy = [number for project, number in served.order if project == "noisy"]
    assert noisy == sorted(noisy)
    await served.lanes.close()


@virtual
async def test_what_a_few_projects_wait_for_outside_delays_no_other():
    lanes, served = Lanes(lambda: asyncio.sleep(0)), []
    for number in range(SERVED_AT_ONCE - 1):
        lanes.add(f"stuck-{number}", asyncio.Event().wait, 0)

    async def serve():
        served.append("quiet")

    lanes.add("quiet", serve, 0)
    lanes.open()
    await until(lambda: served)
    await lanes.close()


def test_a_lane_has_room_for_so_many_and_refuses_more_by_the_name_of_the_limit(monkeypatch):
    monkeypatch.setenv("HEADRACE_REQUESTS_WAITING_PER_PROJECT_MAX", "2")
    monkeypatch.setenv("HEADRACE_REQUESTS_WAITING_BYTES_PER_PROJECT_MAX", "100")
    served = Served()
    served.wait("noisy", 0, 60)
    assert "60 bytes of requests of project noisy wait" in str(served.lanes.refusal("noisy", 41))
    served.wait("noisy", 1, 40)
    assert str(served.lanes.refusal("noisy", 0)) == (
        "refused: request \u2014 2 requests of project noisy wait, and at most 2 may "
        "(HEADRACE_REQUESTS_WAITING_PER_PROJECT_MAX, set for this service); "
        "repeat it when some of them are answered"
    )
    assert served.lanes.refusal("quiet", 100) is None


def test_a_project_sends_no_more_for_long_than_so_many_a_second(monkeypatch):
    monkeypatch.setenv("HEADRACE_REQUESTS_WAITING_PER_PROJECT_MAX", "3")
    monkeypatch.setenv("HEADRACE_REQUESTS_PER_S_PER_PROJECT_MAX", "2")
    now_s = 0.0
    lanes = Lanes(lambda: asyncio.sleep(0), lambda: now_s)
    assert [lanes.refusal("noisy", 0) for _ in range(3)] == [None] * 3
    assert "may send 2 a second for long" in str(lanes.refusal("noisy", 0))
    assert lanes.refusal("quiet", 0) is None
    now_s = 0.5
    assert lanes.refusal("noisy", 0) is None
