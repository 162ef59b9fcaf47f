"""As whom jobs run, and what their accounts reach: below closed folders, with and without mounts."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.node_agent.rig import Node, kill, until

from headrace.events.accounts import BY_USER_NAMESPACES, EVERYBODY, UNISOLATED
from headrace.node_agent.isolation import accounts
from headrace.node_agent.isolation.accounts import COUNT, FIRST, Accounts, NoAccount

SH = "/bin/sh"
IS_ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not IS_ROOT, reason="only root runs jobs in other accounts")
WHO = (
    'id -u; id -un; echo "$HOME"; echo $USER; grep NoNewPrivs /proc/self/status; touch here; '
    "stat -c %u here; kill -TERM $$"
)


@pytest.fixture
async def guarded() -> AsyncIterator[Node]:
    """A node where nobody is root, in a folder that everybody can get to."""
    with tempfile.TemporaryDirectory(prefix="headrace-node-") as folder:
        os.chmod(folder, 0o711)
        node = Node(Path(folder))
        node.accounts = Accounts(users={"dan": "daemon", "eve": "root"})
        await node.placement.open()
        await node.start()
        await node.ready()
        yield node
        await node.close()


@as_root
async def test_a_job_runs_in_the_account_its_user_is_mapped_to(guarded: Node) -> None:
    key = await guarded.placement.want("job-1", SH, "-c", WHO, user="dan")
    end = await guarded.placement.ended(key)

    said = (await guarded.placement.logs(key)).data.decode().splitlines()
    about = pwd.getpwnam("daemon")
    number, home = str(about.pw_uid), about.pw_dir
    assert said == [number, "daemon", home, "daemon", "NoNewPrivs:\t1", number]
    assert (end.reason, end.exit_code) == ("exited", 143)


def test_a_home_that_the_machine_does_not_have_is_kept_by_the_node(tmp_path: Path) -> None:
    lacking = next(entry for entry in pwd.getpwall() if not os.path.isdir(entry.pw_dir))
    identity = accounts.identity_of((lacking.pw_uid, lacking.pw_gid, []), tmp_path)
    assert identity.home == f"{tmp_path}/homes/{lacking.pw_uid}"
    assert identity.name == lacking.pw_name


@as_root
async def test_a_job_runs_as_the_number_that_placement_assigned(guarded: Node) -> None:
    key = await guarded.placement.want("job-1", SH, "-c", WHO, account=7)
    end = await guarded.placement.ended(key)

    said = (await guarded.placement.logs(key)).data.decode().splitlines()
    number, home = str(FIRST + 7), guarded.dir / "homes" / str(FIRST + 7)
    name = f"headrace-{number}"
    assert said == [number, name, str(home), name, "NoNewPrivs:\t1", number]
    assert (end.reason, end.exit_code) == ("exited", 143)
    about = home.stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o777) == (FIRST + 7, FIRST + 7, 0o700)


@as_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
async def test_a_job_finds_its_own_in_the_nodes_folder_and_nothing_else(
    guarded: Node, mode: int
) -> None:
    guarded.dir.chmod(mode)
    mine = await guarded.placement.want("job-1", SH, "-c", "echo 1 > mine; sleep 1000", account=1)
    await guarded.placement.started(mine)
    other = guarded.folder(mine) / "work" / "mine"
    await until(other.exists, "it wrote")
    script = f"ls {guarded.dir} {guarded.dir}/*; cat {other}; id -u > here; cat here"

    key = await guarded.placement.want("job-2", SH, "-c", script, account=2, gpus=0)

    await guarded.placement.ended(key)
    said = (await guarded.placement.logs(key)).data.decode().splitlines()
    own = [f"{guarded.dir}/attempts:", "job-2.1.0", "", f"{guarded.dir}/homes:", str(FIRST + 2)]
    missing = f"cat: {other}: No such file or directory"
    assert said == [f"{guarded.dir}:", "attempts", "homes", "", *own, missing, str(FIRST + 2)]
    assert guarded.dir.stat().st_mode & 0o777 == mode


@as_root
async def test_a_job_finds_the_way_to_its_own_in_a_closed_folder_and_nothing_else(
    guarded: Node,
) -> None:
    closed = guarded.dir.parent
    (closed / "other").touch()
    closed.chmod(0o700)

    key = await guarded.placement.want("job-1", SH, "-c", f"ls {closed}; touch here; ls", gpus=0)

    await guarded.placement.ended(key)
    said = (await guarded.placement.logs(key)).data.decode().splitlines()
    assert said == ["node", "here"]
    assert closed.stat().st_mode & 0o777 == 0o700


@as_root
async def test_without_mounts_ways_are_passable_and_what_is_in_them_stays_closed(
    guarded: Node,
) -> None:
    await guarded.kill_agent()
    assert guarded.grant_no_namespaces() == []
    await guarded.start()
    await guarded.ready()
    mine = await guarded.placement.want("job-1", SH, "-c", "echo 1 > mine; sleep 1000", account=1)
    await guarded.placement.started(mine)
    other = guarded.folder(mine) / "work" / "mine"
    await until(other.exists, "it wrote")
    script = f"cat {other}; ls {guarded.dir}; ls {guarded.dir}/attempts; id -u > here; cat here"

    key = await guarded.placement.want("job-2", SH, "-c", script, account=2)

    await guarded.placement.ended(key)
    said = (await guarded.placement.logs(key)).data.decode().splitlines()
    assert said[-1] == str(FIRST + 2)
    assert len([line for line in said if "denied" in line]) == 3
    assert guarded.dir.stat().st_mode & 0o777 == 0o711


@as_root
async def test_a_job_in_another_account_dies_with_its_shim_and_learns_why_it_ends(
    guarded: Node,
) -> None:
    key = await guarded.placement.want("job-1", "sleep", "1000")
    await guarded.placement.started(key)
    marker = guarded.intent(key).marker
    kill(guarded.shim(key))
    assert (await guarded.placement.ended(key)).reason == "lost"
    assert guarded.left_of(marker) == []

    script = 'trap "cat $HEADRACE_STOP_REASON_FILE; exit 0" TERM; echo on; while :; do :; done'
    asked = await guarded.placement.want("job-2", SH, "-c", script)
    log = guarded.folder(asked) / "0.log"
    await until(lambda: log.exists() and log.read_bytes() == b"on\n", "it runs")
    await guarded.placement.stop(asked, "preempted", grace_s=10)
    await guarded.placement.ended(asked)
    assert log.read_bytes().endswith(b"preempted")


@as_root
async def test_a_folder_that_a_jobs_account_may_not_enter_fails_the_start(
    guarded: Node, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    key = await guarded.placement.want("job-1", "true", workdir=str(tmp_path / "mine"))

    end = await guarded.placement.ended(key)

    assert (end.reason, end.exit_code) == ("start-failed", 126)
    assert end.message == f"cannot start: {tmp_path}/mine: Permission denied"


@as_root
async def test_who_is_mapped_to_root_runs_nowhere(guarded: Node) -> None:
    key = await guarded.placement.want("job-1", "true", user="eve")

    end = await guarded.placement.ended(key)

    assert (end.reason, end.exit_code) == ("start-failed", 126)
    assert end.message == "eve is mapped to root, which is root here"


@as_root
def test_nobody_is_root_and_nobody_runs_without_a_number_of_the_range() -> None:
    with pytest.raises(NoAccount, match="is not an account here"):
        Accounts(users={"ada": "headrace-no-such"}).of("ada", 1)
    for number in (0, -1, COUNT):
        with pytest.raises(NoAccount, match="placement assigned no account to ada"):
            Accounts().of("ada", number)
    assert Accounts(first=5_000_000).of("ada", 3) == (5_000_003, 5_000_003, [])


@pytest.mark.skipif(IS_ROOT, reason="root has accounts")
def test_where_nothing_isolates_only_the_trusted_run() -> None:
    alone = Accounts(isolation=UNISOLATED, trusted="admin")
    assert alone.of("admin", 1) is None
    with pytest.raises(NoAccount, match="HEADRACE_NODE_TRUSTED"):
        alone.of("ada", 1)
    assert Accounts(isolation=UNISOLATED, trusted=EVERYBODY).of("ada", 1) is None
    assert Accounts(isolation=BY_USER_NAMESPACES).of("ada", 1) is None
