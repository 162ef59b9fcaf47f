"""Volumes are shown to a worker in any place, and root makes nothing on the machine for that."""

import itertools
import os
import tempfile
from pathlib import Path

import pytest
from tests.node_agent.workplaces.jobs import ran, shell
from tests.open_folders import full_disk

from headrace.events.asked import Mount

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts take root")
NOBODY = 65_534
_NUMBERS = itertools.count()


@pytest.fixture
def area():
    """A folder of root's that everybody can pass: `sets` is a volume, `job` a job's own folder,
    `root` nobody else's.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-mounts-") as made:
        area = Path(made)
        area.chmod(0o755)
        for name in ("sets", "job", "root"):
            (area / name).mkdir(mode=0o755)
            (area / name / "x").write_text(name)
        os.chown(area / "job", NOBODY, NOBODY)
        yield area


def shown(area, path, volume="sets", *, read_only=False):
    name = volume.replace("/", "-")
    return Mount(volume=name, path=path, read_only=read_only), {name: str(area / volume)}


async def ran_with(node, script, *mounted):
    volumes = {name: path for _, one in mounted for name, path in one.items()}
    mounts = tuple(mount for mount, _ in mounted)
    job = f"job-{next(_NUMBERS)}"
    return await ran(node, job, *shell(script), mounts=mounts, volumes=volumes)


@pytest.mark.parametrize("above", ["", "/headrace-new/deep", "/usr/headrace-new"])
async def test_a_place_that_is_not_there_is_only_in_the_workers_view(shared, area, above):
    where = f"{above}/headrace-{area.name}"
    script = f"cat {where}/x; ls / /usr >/dev/null; cat /etc/hostname /proc/self/stat >/dev/null"
    said, end = await ran_with(shared, f"{script}; touch /usr/y || echo no", shown(area, where))
    assert (said.startswith("sets"), said.endswith("no\n"), end.exit_code) == (True, True, 0)
    assert [name for name in (*os.listdir("/"), *os.listdir("/usr")) if "headrace" in name] == []


async def test_a_place_in_a_volume_is_made_by_the_jobs_own_account(shared, area):
    mounted = (shown(area, f"{area}/root", "job"), shown(area, f"{area}/root/deep/in"))
    said, end = await ran_with(shared, f"cat {area}/root/deep/in/x", *mounted)
    assert (said, end.exit_code) == ("sets", 0)
    assert (area / "job" / "deep" / "in").stat().st_uid == NOBODY
    assert os.listdir(area / "root") == ["x"]


async def test_a_link_that_a_job_put_into_a_volume_leads_no_mount_away(shared, area):
    (area / "job" / "way").symlink_to(area / "root")
    os.lchown(area / "job" / "way", NOBODY, NOBODY)
    for where in ("way", "way/in"):
        mounted = (shown(area, f"{area}/sets", "job"), shown(area, f"{area}/sets/{where}", "root"))
        _, end = await ran_with(shared, "true", *mounted)
        said = f"cannot start: {area}/sets/{where}: a link is on the way"
        assert (end.reason, end.message) == ("start-failed", said)
    assert os.listdir(area / "root") == ["x"]


async def test_a_volume_is_not_taken_from_where_a_jobs_link_leads(shared, area):
    (area / "job" / "way").symlink_to(area / "root")
    (area / "own").symlink_to("sets")
    _, end = await ran_with(shared, "true", shown(area, "/data", "job/way"))
    assert end.message == f"cannot start: {area}/job/way: a link is on the way"
    said, _ = await ran_with(shared, "cat /data/x", shown(area, "/data", "own"))
    assert said == "sets"


async def test_nothing_is_put_into_a_volume_that_is_read_only(shared, area):
    os.chown(area / "sets", NOBODY, NOBODY)
    mounted = (shown(area, "/data", read_only=True), shown(area, "/data/in", "root"))
    _, end = await ran_with(shared, "true", *mounted)
    assert end.message == "cannot start: /data/in: Read-only file system"
    assert os.listdir(area / "sets") == ["x"]


async def test_a_full_volume_is_not_a_full_node(shared, area):
    with full_disk(area / "job"):
        mounted = (shown(area, "/data", "job"), shown(area, "/data/in"))
        _, end = await ran_with(shared, "true", *mounted)
    said = "cannot start: /data/in: No space left on device"
    assert (end.reason, end.message) == ("start-failed", said)


async def test_a_volume_that_is_linked_is_read_only_where_it_is_to_be(shared, area):
    for name in ("sets", "job"):
        os.chown(area / name, NOBODY, NOBODY)
    mounted = (shown(area, "in/data", read_only=True), shown(area, "out", "job"))
    script = f"cat in/data/x; touch out/y; touch in/data/y || touch {area}/sets/y"
    said, end = await ran_with(shared, script, *mounted)
    assert (said.count("Read-only file system"), said[:4], end.exit_code) == (2, "sets", 1)
    assert (os.listdir(area / "sets"), sorted(os.listdir(area / "job"))) == (["x"], ["x", "y"])


async def test_a_volume_that_is_also_written_through_another_link_is_not_read_only(shared, area):
    os.chown(area / "sets", NOBODY, NOBODY)
    mounted = (shown(area, "in", read_only=True), shown(area, "out"))
    _, end = await ran_with(shared, "touch out/y; cat in/y", *mounted)
    assert end.exit_code == 0


async def test_where_no_namespaces_are_granted_a_mount_is_refused_and_not_left_out(shared, area):
    await shared.kill_agent()
    shared.grant_no_namespaces()
    await shared.start()
    await shared.ready()
    _, end = await ran_with(shared, "true", shown(area, "/data"))
    assert (end.reason, end.exit_code) == ("start-failed", 126)
    said = "nothing can be shown at /data: this host grants no mount namespaces"
    assert end.message == said
    linked, end = await ran_with(shared, "cat data/x", shown(area, "data"))
    assert (linked, end.exit_code) == ("sets", 0)
