"""What a job reaches that is not its own: every attack really tried, on a node that keeps jobs apart
and, so that it is known to be one, on a node that does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.node_agent.placement_twin import until
from tests.node_agent.rig import Node, kill
from tests.node_agent.test_sessions import heard, session, to_the_end
from tests.open_folders import open_folder

from headrace.node_agent import agent, supervision
from headrace.node_agent.devices.static import Described, StaticDevices
from headrace.node_agent.isolation import views
from headrace.node_agent.isolation.accounts import FIRST, Accounts
from headrace.node_agent.isolation.cgroups import Cgroup2, _beside, probe_loopback
from headrace.node_agent.machine import AttemptKey
from headrace.node_agent.process_machine import ProcessMachine
from headrace.node_agent.supervision import kernel, tree
from headrace.node_agent.supervision.confinement import pids_in
from headrace.node_agent.supervision.protocol import SOCKET

HERE = Path(__file__).parent
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
SECRET = "what-only-the-victim-knows"
IS_ROOT = os.geteuid() == 0
PLACE = (
    "/run" if IS_ROOT else str(Path.home())
)  # not in the shared places: those are private anyway
PLAIN_UID = 61_234  # an account that no host has
as_plain_user = pytest.mark.skipif(IS_ROOT, reason="of an agent that is not root")
as_root = pytest.mark.skipif(not IS_ROOT, reason="needs root")

SAME_ACCOUNT = (
    "environments", "signals", "tracing", "everybody_else", "its_folder", "shared_places",
    "the_platforms_files", "own_record", "the_launcher", "shared_memory", "abstract_sockets",
)  # fmt: skip
OF_ROOT = {"the_platforms_files", "own_record", "the_launcher", "terminals"}  # no job's account is
ALWAYS_TRIED = (
    *SAME_ACCOUNT,
    "init",
    "uncovering",
    "other_namespaces",
    "its_group",
    "making_devices",
)
PORTS = ("tcp4", "tcp6", "udp4", "udp6")


@pytest.fixture
def terminal() -> Iterator[str]:
    """One of the person's whose account this is."""
    near, far = os.openpty()
    yield os.ttyname(far)
    os.close(near)
    os.close(far)


@pytest.fixture
async def node(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """A node that is not started yet, in a folder that every account can get to."""
    monkeypatch.setattr(agent, "BEFORE_HELLO_S", 0.1)
    with tempfile.TemporaryDirectory(prefix="headrace-node-", dir=PLACE) as folder:
        os.chmod(folder, 0o711)
        node = Node(Path(folder))
        await node.placement.open()
        yield node
        await node.close()


async def started(node: Node) -> None:
    await node.start()
    await node.ready()


def keep_apart(node: Node, **more: object) -> None:
    """As an agent does that has just started, in this account."""
    found = views.probe(node.dir, (node.keys_dir,), **more)
    if found is None:
        pytest.skip("this host grants no namespaces")
    node.views = found
    if IS_ROOT:
        node.accounts = Accounts(users={"ada": "daemon"})


def program(name: str) -> tuple[str, ...]:
    """By its text: a checkout below /tmp is not there for a job, which has its own."""
    return PYTHON, "-c", (HERE / name).read_text()


async def victim(node: Node, user: str = "ada") -> tuple[AttemptKey, dict[str, object]]:
    """A job with a secret, running; and where to look for it."""
    key = await node.placement.want(
        "victim-1", *program("victim.py"), str(os.getpid()), user=user, env={"SECRET": SECRET}
    )
    facts = node.folder(key) / "work" / "facts.json"
    await until(lambda: facts.exists() or node.placement.end_of(key), "the victim is there")
    end = node.placement.end_of(key)
    assert end is None, (end, (await node.placement.logs(key)).data)
    platform = [node.dir / "node.key", node.keys_dir / "grant.pub", node.dir / "journal.jsonl"]
    own = {
        "secret": SECRET,
        "pids": [node.shim(key), *node.intent(key).pids],
        "platform": [str(path) for path in platform],
        "launcher": str(node.dir / SOCKET),
        "covers": [str(node.dir), str(node.keys_dir), "/tmp", "/var/tmp", "/dev/shm", "/proc"],
        "uid": FIRST + 1 if IS_ROOT else os.geteuid(),
        "devices": [],
    }
    assert any(path.exists() for path in platform)
    return key, json.loads(facts.read_text()) | own


async def attacked(
    node: Node, facts: dict[str, object], *attacks: str, user: str = "bob"
) -> set[str]:
    """Which of these attacks a second job succeeds with."""
    key = await node.placement.want(
        "attacker-1", *program("attacker.py"), *attacks, user=user, gpus=0,
        env={"FACTS": json.dumps(facts)},
    )  # fmt: skip
    end = await node.placement.ended(key)
    said = (await node.placement.logs(key)).data.decode()
    assert end.exit_code == 0, (end.message, said)
    answer = json.loads(said.splitlines()[-1])
    assert answer["tried"] == len(attacks)
    return set(answer["succeeded"])


async def test_a_job_reaches_nothing_of_another_job_nor_of_the_platform(
    node: Node, terminal: str
) -> None:
    keep_apart(node)
    await started(node)
    key, facts = await victim(node)
    facts["terminal"] = terminal

    assert await attacked(node, facts, *ALWAYS_TRIED, "terminals") == set()

    assert node.placement.end_of(key) is None
    level = node.placement.of(key)[0].isolation
    assert f"+{'' if IS_ROOT else 'user-'}namespaces" in level


async def test_without_it_one_account_is_one_job(node: Node, terminal: str) -> None:
    """So that these attacks are known to be some."""
    node.grant_no_namespaces()
    await started(node)
    _, facts = await victim(node)
    facts["terminal"] = terminal

    tried = {*SAME_ACCOUNT, "terminals"}
    assert await attacked(node, facts, *tried) == tried - (OF_ROOT if IS_ROOT else set())


@as_root
async def test_jobs_of_one_account_are_kept_apart_too(node: Node) -> None:
    keep_apart(node)
    await started(node)
    _, facts = await victim(node, user="bob")

    assert await attacked(node, facts, *ALWAYS_TRIED, "signals_to_init") == set()


@as_root
async def test_the_shim_is_the_first_process_of_its_attempt(node: Node) -> None:
    """So that a start costs no process beside it and the worker's."""
    keep_apart(node)
    await started(node)
    key = await node.placement.want("job-1", "/bin/sleep", "1000")
    await node.placement.started(key)

    shim = node.shim(key)
    assert tree.descendants(shim) == node.intent(key).pids
    status = kernel.read(f"/proc/{shim}/status", 4096).decode()
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    assert (int(numbers[0]), numbers[-1]) == (shim, "1")


@as_root
@pytest.mark.parametrize(("mode", "said"), [(0o711, "mine"), (0o700, "")])
async def test_a_folder_that_a_job_names_is_one_that_its_account_gets_to(
    node: Node, mode: int, said: str
) -> None:
    keep_apart(node)
    await started(node)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        inside = Path(folder) / "inside"
        inside.mkdir(mode=0o755)
        (inside / "file").write_text("mine")
        os.chmod(folder, mode)
        key = await node.placement.want("job-1", "cat", "file", workdir=str(inside), user="bob")
        end = await node.placement.ended(key)
    assert (await node.placement.logs(key)).data.decode() == said
    assert (end.reason == "exited") == bool(said)


@as_root
@pytest.mark.parametrize("user", ["bob", "ada"])
async def test_what_listens_on_loopback_is_reached_by_its_own_account_only(
    node: Node, user: str
) -> None:
    keep_apart(node)
    node.loopback = probe_loopback(f"headrace-test-{os.getpid()}", node.isolation)
    if not node.loopback:
        pytest.skip("this host has no cgroup v2 for programs")
    await started(node)
    key, facts = await victim(node, user="ada")

    reached = await attacked(node, facts, *PORTS, user=user)

    assert reached == (set(PORTS) if user == "ada" else set())
    assert node.placement.of(key)[0].isolation.endswith("+loopback+namespaces+sockets")
    await node.placement.stop(key, grace_s=0)
    await node.placement.ended(key)
    os.rmdir(node.loopback)


@as_root
async def test_devices_that_a_job_was_not_given_cannot_be_opened_without_groups(
    node: Node,
) -> None:
    place = Path(tempfile.mkdtemp(prefix="chips-", dir="/dev"))
    try:
        os.chmod(place, 0o755)
        for number, minor in enumerate((5, 7)):  # as /dev/zero and /dev/full
            os.mknod(place / f"chip{number}", 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            os.chmod(place / f"chip{number}", 0o666)
        chips = Described(
            model="Chip", count=2, memory="1GB", environment="CHIPS", file=f"{place}/chip{{}}"
        )
        node.devices = lambda: StaticDevices(chips, "n1")
        keep_apart(node)
        await started(node)
        _, facts = await victim(node)
        facts["devices"] = [f"{place}/chip0", f"{place}/chip1"]

        assert await attacked(node, facts, "refused_devices") == set()
    finally:
        shutil.rmtree(place)


@as_root
def test_the_same_holds_where_the_agent_is_not_root() -> None:
    """This file once more, in an account without rights that can get to the interpreter."""
    with tempfile.TemporaryDirectory(prefix="headrace-plain-", dir=PLACE) as folder:
        os.chown(folder, PLAIN_UID, PLAIN_UID)
        run = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__]
        way = reachable(sys.base_prefix, f"{folder}/reached")
        plain = ["setpriv", f"--reuid={PLAIN_UID}", f"--regid={PLAIN_UID}", "--clear-groups"]
        env = {**os.environ, "TMPDIR": folder, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-ec", f"{way} exec {shlex.join([*plain, *run])}"],
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def reachable(path: str, by: str) -> str:
    """Commands after which everybody can get to this path, in a mount namespace of their own."""
    for above in reversed(Path(path).parents):
        if not above.stat().st_mode & stat.S_IXOTH:
            return (
                f"mkdir {by}; mount --bind {path} {by};"
                f" mount -t tmpfs -o mode=755 tmpfs {above}; mkdir -p {path};"
                f" mount --move {by} {path};"
            )
    return ""


@as_plain_user
@pytest.mark.parametrize(("user", "sees"), [("bob", False), ("ada", True)])
async def test_only_jobs_of_the_trusted_user_see_the_accounts_home(
    node: Node, monkeypatch: pytest.MonkeyPatch, user: str, sees: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="home-", dir="/var/tmp") as name:
        home = Path(name)
        kernel.write(f"{home}/id_rsa", b"private")
        monkeypatch.setenv("HOME", str(home))
        keep_apart(node, shown=(home,), trusted="ada")
        await started(node)
        key = await node.placement.want("job-1", "/bin/cat", f"{home}/id_rsa", user=user)

        end = await node.placement.ended(key)

        assert (end.exit_code == 0) is sees
        assert ((await node.placement.logs(key)).data == b"private") is sees


@as_root
async def test_a_job_may_not_name_a_folder_that_is_hidden(node: Node) -> None:
    keep_apart(node)
    await started(node)
    key = await node.placement.want("job-1", "/bin/ls", workdir=str(node.dir), gpus=0)

    await node.placement.ended(key)

    assert (await node.placement.logs(key)).data.split() == [b"attempts"]  # the way to its own


@pytest.mark.security
@pytest.mark.parametrize("is_link", [True, False])
async def test_a_link_that_is_laid_when_all_is_planned_uncovers_nothing(
    node: Node, is_link: bool
) -> None:
    machines: list[ProcessMachine] = []
    node.machine = lambda given: machines.append(ProcessMachine(given)) or machines[-1]
    hidden = node.dir / "others"
    hidden.mkdir(0o755)
    (hidden / "key").touch()
    with open_folder() as shared:
        keep_apart(node, shown=(shared,), trusted="ada")
        await started(node)
        key = await node.placement.want("job-1", "true", gpus=0)
        await node.placement.ended(key)  # there is a launcher
        way, mine = shared / "way", shared / "mine"
        mine.mkdir()
        way.symlink_to(mine)
        cwd = way if is_link else mine
        os.kill(node.launcher(), signal.SIGSTOP)
        key = await node.placement.want("job-2", "/bin/ls", str(hidden), workdir=str(cwd), gpus=0)
        await until(lambda: machines[0].look(key) is not None, "it is planned")
        way.unlink()
        mine.rename(shared / "gone")
        cwd.symlink_to(hidden)
        os.kill(node.launcher(), signal.SIGCONT)

        end = await node.placement.ended(key)
        assert b"key" not in (await node.placement.logs(key)).data
        assert end.reason == "start-failed"


@as_root
def test_namespaces_are_granted_where_no_control_groups_are_mounted(tmp_path: Path) -> None:
    if not views.granted() or not os.path.ismount("/sys/fs/cgroup"):
        pytest.skip("this host grants no namespaces, or has no control groups")
    program = [sys.executable, "-I", "-S", str(Path(supervision.__file__).parent)]
    tried = shlex.join([*program, "--try-namespaces", str(tmp_path)])
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", f"umount --recursive --lazy /sys/fs/cgroup; exec {tried}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == list(views.granted()), done.stderr


async def test_what_an_administrator_shows_is_there_in_the_shared_places(node: Node) -> None:
    with tempfile.TemporaryDirectory(prefix="shown-", dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        keep_apart(node, shown=(Path("/tmp"),))
        await started(node)
        key = await node.placement.want("job-1", "/bin/sh", "-c", f"touch {folder}/here")
        end = await node.placement.ended(key)
        assert end.exit_code == 0, (await node.placement.logs(key)).data
        assert os.listdir(folder) == ["here"]


async def test_what_a_job_leaves_in_its_temporary_folder_goes_with_it(node: Node) -> None:
    keep_apart(node)
    await started(node)
    deep = "d=/tmp; for i in $(seq 300); do d=$d/x; mkdir $d; done; ln -s / /tmp/root; touch $d/y"
    script = f"{deep}; test -e /var/tmp/x && ! test -e {node.dir.parent}/keys/grant.pub"
    key = await node.placement.want("job-1", "/bin/sh", "-c", script)

    end = await node.placement.ended(key)

    assert end.exit_code == 0, (await node.placement.logs(key)).data
    assert not (node.folder(key) / "tmp").exists()


@as_root
async def test_an_account_without_a_name_has_one_in_its_job(node: Node) -> None:
    keep_apart(node)
    await started(node)
    key = await node.placement.want(
        "job-1", "/bin/sh", "-c", "id -un; id -gn; echo $USER; cd ~; pwd", user="bob", account=7
    )

    await node.placement.ended(key)

    name = f"headrace-{FIRST + 7}"
    said = (await node.placement.logs(key)).data.decode()
    assert said.split() == [name, name, name, f"{node.dir}/homes/{FIRST + 7}"]


async def test_what_a_job_leaves_running_is_asked_to_end_and_then_ended(node: Node) -> None:
    keep_apart(node)
    await started(node)
    asked = "trap 'echo asked; exit 0' TERM; touch ready; while :; do sleep 0.01; done"
    script = f'(setsid sh -c "{asked}" &) ; until test -e ready; do sleep 0.01; done'
    key = await node.placement.want("job-1", "/bin/sh", "-c", script)

    end = await node.placement.ended(key)
    assert (end.reason, end.exit_code) == ("exited", 0)
    assert (await node.placement.logs(key)).data.endswith(b"asked\n")
    assert node.left_of(node.intent(key).marker) == []


async def test_everything_of_a_job_dies_with_its_shim(node: Node) -> None:
    keep_apart(node)
    await started(node)
    script = "(setsid env -i sleep 1000 &); touch ready; sleep 1000"
    key = await node.placement.want("job-1", "/bin/sh", "-c", script)
    await until((node.folder(key) / "work" / "ready").exists, "it runs")
    pids = tree.descendants(node.shim(key))
    assert len(pids) >= 2

    kill(node.launcher())  # which would end what it finds left over
    kill(node.shim(key))

    assert (await node.placement.ended(key)).reason == "lost"
    await until(lambda: not any(map(kernel.start_time, pids)), "nothing is left")


async def test_what_a_setup_prepared_cannot_be_changed_by_those_that_run_on_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{os.path.dirname(PYTHON)}:{os.environ['PATH']}")
    keep_apart(node)
    await started(node)
    setup = ("/bin/sh", "-euc", "echo prepared > $VIRTUAL_ENV/prepared")
    script = "cat $VIRTUAL_ENV/prepared; ! touch $VIRTUAL_ENV/mine 2> why && cat why"
    for job in ("first", "next"):
        key = await node.placement.want(job, "/bin/sh", "-c", script, setup=setup)
        end = await node.placement.ended(key)
        said = (await node.placement.logs(key)).data.decode()
        assert end.exit_code == 0, (end, said)
        assert "prepared" in said
        assert "Read-only file system" in said


async def test_a_program_beside_a_worker_is_in_its_namespaces(node: Node) -> None:
    keep_apart(node)
    await started(node)
    key = await node.placement.want("job-1", "/bin/sh", "-c", "touch /tmp/mine; sleep 1000")
    await node.placement.started(key)
    await until(lambda: os.listdir(node.folder(key) / "tmp"), "the worker's file")

    async with session(node, key, "exec", command=("/bin/sh", "-c", "ls /tmp; ls /proc")) as wire:
        said = (await heard(wire, to_the_end))["data"]

    names = said.decode().split()
    assert "mine" in names
    assert str(node.intent(key).pids[0]) not in names


@as_root
async def test_what_a_process_of_the_namespace_says_to_its_first_one_changes_nothing(
    node: Node,
) -> None:
    keep_apart(node)
    await started(node)
    key, _ = await victim(node)
    enter = ["nsenter", f"--target={node.intent(key).pids[0]}", "--pid"]
    for number in ("TERM", "HUP", "USR1", "KILL"):
        inside = await asyncio.create_subprocess_exec(*enter, "kill", f"-{number}", "1")
        assert await inside.wait() == 0
    os.kill(node.intent(key).pids[0], signal.SIGQUIT)
    end = await node.placement.ended(key)
    assert (end.reason, end.exit_code) == ("exited", 128 + signal.SIGQUIT)


@as_root
async def test_a_shim_is_in_its_attempts_group_of_version_2_no_longer_than_a_start_takes(
    node: Node,
) -> None:
    try:
        base = _beside("visited")
    except KeyError:
        pytest.skip("this host has no groups of version 2")
    os.makedirs(base, exist_ok=True)
    try:
        node.isolation = Cgroup2(base)
        keep_apart(node)
        await started(node)
        key, _ = await victim(node)
        own = f"{base}/{node.folder(key).name}"
        assert pids_in([own]) == node.intent(key).pids
        before = kernel.read(f"/proc/{node.launcher()}/cgroup", 4096)
        assert kernel.read(f"/proc/{node.shim(key)}/cgroup", 4096) == before
        await node.placement.stop(key)
        await node.placement.ended(key)
        assert not os.access(own, os.F_OK)
    finally:
        await node.close()
        os.rmdir(base)
