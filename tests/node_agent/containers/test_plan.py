"""What an engine is told to create, and what is made of what it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.bus.agents import Assignment, Launch
from headrace.events.nodes import Device
from headrace.node_agent.containers import cdi, ending, gpus, isolation, plan, record
from headrace.node_agent.containers.ending import Asked
from headrace.node_agent.containers.engine import State, frames
from headrace.node_agent.containers.facts import Facts
from headrace.node_agent.containers.images import Progress, logins_in
from headrace.node_agent.enforcement import Bound
from headrace.node_agent.folders import Intent
from headrace.node_agent.machine import AttemptKey, Workplace

DOCKER = Facts(name="docker", version="28.2.2", init=True)
GPUS = [
    Device(device=f"GPU-{n}", index=n, model="H100-80GB", memory_bytes=80 * 10**9) for n in range(2)
]
SLICE = Device(
    device="MIG-7",
    index=0,
    model="H100-80GB",
    memory_bytes=10**10,
    profile="1g.10gb",
    parent="GPU-0",
)
IMAGE_PATH = "/opt/conda/bin:/bin"
SHARED_FILES = {"nvidia": ("/dev/nvidiactl",)}
OWN_FILES = ("/dev/nvidia0", "/dev/nvidia1")


def around(**changes: object) -> plan.Surroundings:
    given = {
        "node": "n1", "node_dir": Path("/n"), "folder": Path("/n/attempts/a.1.0"),
        "bound": Bound("none", {"CUDA_VISIBLE_DEVICES": "GPU-0"}), "devices": [], "account": None,
        "own": (1000, 1000), "group": "", "names": {},
        "facts": DOCKER, "files": {}, "cwd": "", "mounts": (), "told": {},
        "host_memory_bytes": 2**40, "marker": "mark",
    }  # fmt: skip
    return plan.Surroundings(**(given | changes))


def config(launch: Launch | None = None, asked: dict | None = None, **changes: object) -> dict:
    assignment = Assignment(
        job="a", attempt=1, rank=0, position=42, project="vision", **(asked or {})
    )
    launch = launch or Launch(command=("python", "train.py"), image="torch:2")
    return plan.config_of(assignment, launch, around(**changes), path=IMAGE_PATH)


def environment(made: dict) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in made["Env"])


def test_volumes_are_mounted_and_where_they_are_is_told() -> None:
    mounts = [("/mnt/sets", "/data", True), ("/mnt/out", "/n/attempts/a.1.0/work/out", False)]
    made = config(mounts=mounts, told={"HEADRACE_VOLUME_SETS": "/data"})
    assert made["HostConfig"]["Mounts"][-2:] == [
        {"Type": "bind", "Source": "/mnt/sets", "Target": "/data", "ReadOnly": True},
        {"Type": "bind", "Source": "/mnt/out", "Target": "/n/attempts/a.1.0/work/out"},
    ]
    assert environment(made)["HEADRACE_VOLUME_SETS"] == "/data"


def test_the_names_of_its_peers_are_where_every_program_looks_for_them() -> None:
    made = config(files={"hosts": (0o644, "10.0.0.1 n1 rank-0\n")})
    shown = {mount["Target"]: mount for mount in made["HostConfig"]["Mounts"]}["/etc/hosts"]
    assert (shown["Source"], shown["ReadOnly"]) == ("/n/attempts/a.1.0/hosts", True)


def test_the_command_replaces_the_images_entry_point() -> None:
    made = config()
    assert (made["Image"], made["Entrypoint"], made["Cmd"]) == ("torch:2", ["python"], ["train.py"])


def test_the_images_own_path_stays_unless_the_job_sets_one() -> None:
    assert environment(config())["PATH"] == IMAGE_PATH
    launch = Launch(command=("x",), image="torch:2", env={"PATH": "/mine"})
    assert environment(config(launch))["PATH"] == "/mine"


def test_a_worker_has_its_facts_and_folders_under_the_paths_of_the_host() -> None:
    made = config()
    env, folder = environment(made), "/n/attempts/a.1.0"
    assert env["HEADRACE_JOB_ID"] == "a"
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-0"
    assert env["HEADRACE_STOP_REASON_FILE"] == f"{folder}/stop-reason"
    assert env["HOME"] == made["WorkingDir"] == f"{folder}/work"
    mounts = {mount["Source"]: mount["Target"] for mount in made["HostConfig"]["Mounts"]}
    assert all(source == target for source, target in mounts.items())
    assert {f"{folder}/work", f"{folder}/output", f"{folder}/stop-reason"} <= mounts.keys()


def test_it_runs_as_its_account_without_rights_of_its_own() -> None:
    made = config(account=(1001, 1002, [1002, 44]))
    assert made["User"] == "1001:1002"
    assert made["HostConfig"]["GroupAdd"] == ["1002", "44"]
    assert made["HostConfig"]["CapDrop"] == ["ALL"]
    assert made["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
    assert config()["User"] == "1000:1000"


def test_limits_are_the_assignments_and_swap_is_no_way_around_them() -> None:
    asked = {"cpu_milli": 1500, "memory_bytes": 2**30}
    host = config(asked=asked)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (2**30, 2**30)
    assert host["CpuQuota"] * 1000 == 1500 * host["CpuPeriod"]
    assert host["ShmSize"] == 2**30
    assert "Memory" not in config()["HostConfig"]
    assert config()["HostConfig"]["ShmSize"] == 2**39
    launch = Launch(command=("x",), image="torch:2", shm_bytes=2**33)
    assert config(launch, asked=asked)["HostConfig"]["ShmSize"] == 2**33


def test_rdma_adapters_of_the_host_are_there_with_the_right_to_pin() -> None:
    facts = Facts(name="docker", version="28", device_files={"rdma": ("/dev/infiniband/uverbs0",)})
    host = config(facts=facts)["HostConfig"]
    assert host["NetworkMode"] == "host"
    assert [device["PathInContainer"] for device in host["Devices"]] == ["/dev/infiniband/uverbs0"]
    assert host["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert "Ulimits" not in config()["HostConfig"]


def test_a_worker_under_mps_reaches_the_daemon() -> None:
    made = config(bound=Bound("mps", {}, {}, (), ("/n/mps/abc",)))["HostConfig"]
    assert made["IpcMode"] == "private"
    assert {"/n/mps/abc", "/dev/shm"} <= {mount["Source"] for mount in made["Mounts"]}
    others = config(bound=Bound("watch"))["HostConfig"]["Mounts"]
    assert "/dev/shm" not in {mount["Source"] for mount in others}


def test_setup_and_command_are_run_by_one_shell_with_their_words_kept() -> None:
    launch = Launch(command=("echo", "a b"), setup=("pip", "install", "x y"), image="torch:2")
    made = config(launch)
    assert made["Entrypoint"] == ["/bin/sh"]
    assert "pip install 'x y' ||" in made["Cmd"][1]
    assert made["Cmd"][1].endswith("exec echo 'a b'")


def test_what_a_framework_is_given_is_found_before_what_the_image_has() -> None:
    launch = Launch(command=("mpirun", "x"), image="torch:2", framework="mpi")
    made = config(launch, files={"hostfile": (0o600, "n1"), "bin/mpirun": (0o700, "#!")})
    folder = "/n/attempts/a.1.0"
    assert environment(made)["PATH"] == f"{folder}/bin:{IMAGE_PATH}"
    mounted = [mount["Source"] for mount in made["HostConfig"]["Mounts"]]
    assert {f"{folder}/hostfile", f"{folder}/bin"} <= set(mounted)


def test_labels_name_the_attempt_and_its_grant_and_are_read_back() -> None:
    labels = config()["Labels"]
    assert labels[plan.LABEL_GRANT] == "42"
    assert plan.key_in(labels) == AttemptKey("a", 1, 0)
    assert plan.key_in({plan.LABEL_JOB: "a", plan.LABEL_ATTEMPT: "x"}) is None


def test_two_nodes_of_one_machine_have_containers_of_different_names() -> None:
    key = AttemptKey("sweep-1/3", 2, 0)
    names = {plan.name_of(Path(folder), key) for folder in ("/a/n1", "/b/n1")}
    assert len(names) == 2
    assert all(name.endswith("-sweep-1.3.2.0") for name in names)


@pytest.mark.parametrize(
    ("devices", "facts", "way", "host"),
    [
        ([], {}, "", {}),
        (
            GPUS,
            {"cdi": frozenset({"nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1"}), "runtimes": ("nvidia",)},
            "cdi",
            {"DeviceRequests": [
                {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1"]}
            ]},
        ),
        (GPUS, {"cdi": frozenset({"nvidia.com/gpu=0"}), "runtimes": ("nvidia",)}, "runtime",
         {"Runtime": "nvidia"}),
        ([SLICE], {"cdi": frozenset({"nvidia.com/gpu=0"}), "runtimes": ("nvidia",)}, "runtime",
         {"Runtime": "nvidia"}),
        (GPUS, {"device_files": SHARED_FILES}, "files",
         {"Devices": gpus.mapped([*OWN_FILES, "/dev/nvidiactl"])}),
    ],
)  # fmt: skip
def test_gpus_are_shown_by_the_first_way_that_shows_them_all(
    devices: list[Device], facts: dict, way: str, host: dict
) -> None:
    shown = gpus.shown(
        devices, OWN_FILES if devices else (), Facts(name="docker", version="28", **facts)
    )
    assert (shown.way, shown.host) == (way, host)


def test_the_vendors_runtime_shows_a_worker_its_own_gpus_and_nobody_else_any() -> None:
    facts = Facts(name="docker", version="28", runtimes=("nvidia",))
    assert gpus.shown(GPUS, OWN_FILES, facts).env["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
    assert gpus.shown([], (), facts).env == {"NVIDIA_VISIBLE_DEVICES": "void"}


def test_cdi_names_are_read_from_what_the_host_specifies(tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text(
        "kind: nvidia.com/gpu\ndevices: [{name: '0'}, {name: all}]"
    )
    (tmp_path / "amd.json").write_text('{"kind": "amd.com/gpu", "devices": [{"name": "0"}]}')
    (tmp_path / "broken.yaml").write_text("kind: [")
    (tmp_path / "odd.json").write_text('["devices"]')
    names = cdi.names_in([str(tmp_path), "/no/such/folder"])
    assert names == {"nvidia.com/gpu=0", "nvidia.com/gpu=all", "amd.com/gpu=0"}


def state(code: int, *, oom: bool = False) -> State:
    return State(running=False, exit_code=code, oom=oom, pid=0, started=True)


@pytest.mark.parametrize(
    ("found", "asked", "reason", "code", "message"),
    [
        (state(0), Asked(), "exited", 0, ""),
        (state(3), Asked(), "exited", 3, "exit code 3"),
        (state(139), Asked(), "exited", 139, "killed by signal 11 (Segmentation fault)"),
        (state(143), Asked(stop="reclaimed"), "stopped", 143, "stopped: reclaimed"),
        (state(0), Asked(stop="reclaimed", timed_out=True), "stopped", 124, "max_duration reached"),
        (state(5), Asked(setup_failed=True), "start-failed", 5, "setup: exit code 5"),
        (state(5), Asked(setup_failed=True, setup_said=b"E: are you root?"), "start-failed", 5,
         f"setup: exit code 5{ending.SETUP_DENIED}"),
        (state(137, oom=True), Asked(memory_bytes=2**30), "oom", 137,
         "out of memory: its limit is 1024 MiB (resources.memory), held by docker"),
        (state(0, oom=True), Asked(), "exited", 0, ""),
    ],
)  # fmt: skip
def test_an_end_is_told_in_the_words_of_the_log(
    found: State, asked: Asked, reason: str, code: int, message: str
) -> None:
    end = ending.exit_of(found, asked, started_at_us=1, now_us=2)
    assert (end.reason, end.exit_code, end.message) == (reason, code, message)


def test_a_worker_that_ended_with_its_engine_is_lost_and_not_its_own_doing() -> None:
    end = ending.exit_of(state(0), Asked(engine_ended=True), started_at_us=1, now_us=2)
    assert end.reason == "lost"
    assert "live-restore" in end.message


def test_what_the_first_process_could_not_become_is_named() -> None:
    said = b"headrace: fetching image x\n[FATAL tini (7)] exec nope failed: No such file or directory\n"
    assert ending.not_executed(state(127), said) == "nope: No such file or directory"
    assert ending.not_executed(state(127), b"sh: nope: not found\n") == ""
    assert ending.not_executed(state(1), said) == ""


def test_output_is_taken_apart_into_pieces_with_their_moments() -> None:
    moment = b"2026-11-21T16:14:43.941731492Z"
    piece = b"\x01\0\0\0" + (len(moment) + 1 + 3).to_bytes(4, "big") + moment + b" a\0\n"
    found, rest = frames(piece + piece + piece[:20])
    assert found == [(moment, b"a\0\n")] * 2
    assert rest == piece[:20]
    assert frames(b"\x01\0") == ([], b"\x01\0")


def test_progress_counts_layers() -> None:
    progress = Progress()
    assert progress.told() == "nothing has come yet"
    part = {"current": 2**20, "total": 2**21}
    progress.hear({"id": "a", "status": "Downloading", "progressDetail": part})
    progress.hear({"id": "b", "status": "Downloading", "progressDetail": part})
    progress.hear({"id": "b", "status": "Download complete", "progressDetail": {}})
    progress.hear("not a line")
    assert progress.told() == "3 of 4 MiB"


def test_logins_are_read_as_docker_login_leaves_them(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    assert logins_in(config) == {}
    config.write_text('{"auths": {"registry.example.com": {"auth": "eDp5"}, "other": {}}}')
    assert logins_in(config) == {"registry.example.com": {"auth": "eDp5"}}
    config.write_text("[")
    assert logins_in(config) == {}


def test_a_container_gains_nothing_and_does_not_see_where_it_is() -> None:
    made = config()
    host = made["HostConfig"]
    assert (host["CapDrop"], host["SecurityOpt"]) == (["ALL"], ["no-new-privileges"])
    assert (host["CgroupnsMode"], host.get("Privileged", False)) == ("private", False)
    assert made["Healthcheck"] == {"Test": ["NONE"]}


def test_no_container_is_root() -> None:
    with pytest.raises(ValueError, match="no job is root"):
        config(own=(0, 0))


@pytest.mark.parametrize(
    ("facts", "account", "level"),
    [
        ({}, None, "docker+processes+devices+namespaces"),
        ({"limits": "cgroup2"}, (7, 7, []), "docker+cgroup2+account+devices+namespaces"),
        (
            {"limits": "cgroup1", "seccomp": True}, (7, 7, []),
            "docker+cgroup1+account+devices+namespaces+seccomp",
        ),
    ],
)  # fmt: skip
def test_the_record_says_what_the_engine_holds(facts: dict, account: Any, level: str) -> None:
    assert isolation.level_of(msgspec.structs.replace(DOCKER, **facts), account) == level


def test_the_record_says_what_is_not_the_containers_own() -> None:
    said = isolation.level_of(DOCKER, (7, 7, []), loopback=True, shares_memory=True)
    assert "+loopback+namespaces+host-shm" in said


def test_a_user_that_is_another_on_the_host_is_told() -> None:
    assert isolation.foreign_user([7, 7, 7, 7], 7) == ""
    assert isolation.foreign_user([], 7) == ""
    assert "ran as uid 0 of the host, not as the job's account 7" in isolation.foreign_user(
        [7, 0], 7
    )
    assert isolation.users_of(os.getpid()) == [os.getuid()] * 4


def test_a_mount_point_is_made_as_the_jobs_own_and_through_no_link(tmp_path: Path) -> None:
    """The engine would make it as root, wherever in the container a link leads."""
    folder, tree = tmp_path / "a.1.0", tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to("/data")
    said = {"project": "vision", "traceparent": "", "enforcement": "none", "marker": "m"}
    numbers = {"version": 1, "pid": 0, "attempt": 1, "rank": 0}
    intent = Intent(boot="b", job="a", devices=[], **said, **numbers)
    kept = record.Kept(image="i", grace_s=1)
    own = (os.getuid(), os.getgid(), [])
    place = Workplace()
    record.prepare(folder, intent, kept, place, files={}, account=own, mountpoints=["work/in/data"])
    assert (folder / "work" / "in" / "data").is_dir()
    place = Workplace(tree=str(tree))
    with pytest.raises(OSError, match="a link is on the way"):
        record.prepare(
            folder, intent, kept, place, files={}, account=own, mountpoints=["work/link/new"]
        )
