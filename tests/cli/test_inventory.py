"""What there is by name: pools, volumes, secrets, publishers."""

import json

from tests.cli.program import in_log
from tests.gateway.histories import joined
from tests.gateway.people import configured

from headrace.events.access import PublisherCreated, PublisherDeleted, SecretSet
from headrace.events.pools import Pool, PoolConfigured
from headrace.events.volumes import Volume, VolumeConfigured

POOL = Pool(
    pool="train",
    label="pool",
    value="train",
    prices={"H100": 2_100_000},
    currency="EUR",
    max_duration_us=3_600_000_000,
)


async def rows(headrace, *words):
    code, out, _ = await headrace(*words)
    assert code == 0
    return [line.split() for line in out.splitlines()[1:]]


async def test_pools_are_listed_with_their_nodes_and_prices(world, headrace):
    await in_log(
        world,
        joined("n1", labels={"pool": "train"}),
        joined("n2"),
        PoolConfigured(name="train", pool=POOL, change="created"),
    )
    (row,) = await rows(headrace, "pool", "list", "-o", "wide")
    assert row == ["train", "1", "pool=train", "binpack", "1h00m", "–", "H100", "2.10", "EUR"]
    _, out, _ = await headrace("pool", "list", "-o", "json")
    assert json.loads(out)[0]["prices"] == {"H100": 2_100_000}


async def test_volumes_are_listed_with_the_nodes_that_reach_them(world, headrace):
    near = {"near_label": "rack", "near_value": "r1"}
    somewhere = Volume(volume="a", path="/mnt/a", label="site", value="berlin", **near)
    everywhere = Volume(volume="b", path="/mnt/b")
    await in_log(
        world,
        joined("n1", labels={"site": "berlin"}),
        joined("n2"),
        VolumeConfigured(name="a", volume=somewhere, change="created"),
        VolumeConfigured(name="b", volume=everywhere, change="created"),
    )
    assert await rows(headrace, "volume", "list") == [
        ["a", "1", "site=berlin", "rack=r1", "/mnt/a"],
        ["b", "2", "every", "node", "–", "/mnt/b"],
    ]


async def test_secrets_are_listed_by_their_names(world, headrace):
    for project in ("ads", "vision"):
        made = (
            configured(project, "research"),
            SecretSet(project=project, name="KEY", version="v7"),
        )
        await in_log(world, *made)
    found = await rows(headrace, "secret", "list")
    assert [row[:3] for row in found] == [["KEY", "ads", "v7"], ["KEY", "vision", "v7"]]
    assert len(await rows(headrace, "secret", "list", "-p", "ads")) == 1


async def test_publishers_are_listed_with_their_keys(world, headrace):
    await in_log(world, PublisherCreated(project="ads", name="etl", public_key="UABC"))
    (row,) = await rows(headrace, "publisher", "list")
    assert (row[:2], row[-1]) == (["etl", "ads"], "UABC")
    await in_log(world, PublisherDeleted(project="ads", name="etl", public_key="UABC"))
    assert await rows(headrace, "publisher", "list") == []
