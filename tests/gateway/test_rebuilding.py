"""What the gateway answers with is what the log comes to, whenever it is folded."""

from tests.gateway.histories import RUN, finished, joined, released


async def test_a_projection_folded_again_is_the_same(world):
    await world.append(joined(), *RUN, released(), finished())
    await world.gateway.follower.reached(len(world.log.events))
    found = await world.call(world.client().rebuild)
    assert (found.position, found.differs) == (len(world.log.events), [])


async def test_one_that_is_not_what_the_log_has_is_replaced_and_told_of(world):
    await world.append(joined(), *RUN)
    await world.gateway.follower.reached(len(world.log.events))
    world.gateway.projection.live.clear()
    found = await world.call(world.client().rebuild)
    assert found.differs == ["live"]
    assert [row.job for row in (await world.call(world.client().jobs)).jobs] == ["hello-a"]
