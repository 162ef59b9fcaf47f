"""What workers said of themselves, in the description of their job."""

import msgspec
from tests.gateway.histories import RUN, worker_exited

from headrace.bus import subjects
from headrace.bus.agents import Progress, Reported

STEP_7, STEP_8 = {"step": "7", "loss": "0.5"}, {"step": "8", "loss": "0.25"}


async def test_a_job_is_described_with_what_its_workers_said_last(world):
    await world.append(*RUN)
    await world.gateway.follower.reached(len(RUN))
    await world.gateway.progress.listen(world.gateway.bus)
    said = Reported(job="hello-a", attempt=1, rank=0, project="vision", values=STEP_7)
    forged = msgspec.structs.replace(said, values=STEP_8)
    for node, what in (("n2", forged), ("n1", said), ("n2", forged)):
        data = msgspec.json.encode(Progress(node="n1", workers=(what,)))
        await world.bus.publish(subjects.progress_up(node), data)
    while not list(world.gateway.progress.all()):
        found = await world.call(world.client().job, "hello-a")
    found = await world.call(world.client().job, "hello-a")
    assert found.attempts[0].workers[0].reported == STEP_7, "another node is not believed"
    assert [each.values for each in world.gateway.progress.all()] == [STEP_7]

    await world.append(worker_exited(reported=STEP_8))
    await world.gateway.follower.reached(len(RUN) + 1)
    found = await world.call(world.client().job, "hello-a")
    assert found.attempts[0].workers[0].reported == STEP_8
