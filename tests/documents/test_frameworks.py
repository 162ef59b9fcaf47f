"""What each framework's processes find in their environment."""

import msgspec
import pytest

from headrace.documents import frameworks
from headrace.documents.frameworks import Place, environment

GANG = Place(
    job="pretrain-b0c4",
    attempt=3,
    folder="/n/a",
    names=("n1", "n2"),
    addresses=("10.0.0.1", "10.0.0.2"),
    ports=(20_011, 20_021),
    slots=(2, 2),
    port=20_007,
    node_rank=1,
    processes=2,
    local=1,
    devices=2,
    cores=8,
)
PER_NODE = msgspec.structs.replace(GANG, processes=1, local=0)
ALONE = Place(job="hello", attempt=1, folder="/n/a", port=20_007)
ELASTIC = msgspec.structs.replace(PER_NODE, nodes_min=2, nodes_max=8, node_rank=5)

ROLES = Place(
    job="ps", attempt=1, folder="/n/a", names=("n1", "n1", "n2"),
    addresses=("10.0.0.1", "10.0.0.1", "10.0.0.2"), ports=(20_011, 20_021, 20_011),
    slots=(1, 2, 2), port=20_010, node_rank=2, processes=2, local=1, devices=2,
    counts=(1, 2, 2), roles=("ps", "worker", "worker"), role="worker",
)  # fmt: skip

TOLD = {
    "pytorch": (GANG, {
        "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2",
        "PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": "10.0.0.1", "PET_MASTER_PORT": "20007",
    }),
    "pytorch, elastic": (ELASTIC, {
        "PET_NNODES": "2:8", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "10.0.0.1:20007",
        "PET_RDZV_ID": "pretrain-b0c4-3", "PET_MAX_RESTARTS": "100",
        "PET_RDZV_CONF": "is_host=false,last_call_timeout=5,keep_alive_interval=2,"
        "keep_alive_max_attempt=3",
    }),
    "pytorch, roles": (ROLES, {"RANK": "4", "WORLD_SIZE": "5", "LOCAL_RANK": "1"}),
    "tensorflow, roles": (ROLES, {
        "TF_CONFIG": '{"cluster":{"ps":["10.0.0.1:20011"],"worker":["10.0.0.1:20021",'
        '"10.0.0.1:20022","10.0.0.2:20011","10.0.0.2:20012"]},'
        '"task":{"type":"worker","index":3}}',
    }),
    "tensorflow": (GANG, {
        "TF_CONFIG": '{"cluster":{"worker":["10.0.0.1:20011","10.0.0.1:20012",'
        '"10.0.0.2:20021","10.0.0.2:20022"]},"task":{"type":"worker","index":3}}',
    }),
    "keras": (PER_NODE, {
        "TF_CONFIG": '{"cluster":{"worker":["10.0.0.1:20011","10.0.0.2:20021"]},'
        '"task":{"type":"worker","index":1}}',
    }),
    "jax": (PER_NODE, {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:20007", "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1", "JAX_LOCAL_DEVICE_IDS": "0,1", "SLURM_NTASKS": "2",
        "SLURM_STEP_NODELIST": "10.0.0.1,10.0.0.2",
    }),
    "slurm": (GANG, {
        "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
        "SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_NODEID": "1",
    }),
    "mpi": (PER_NODE, {
        "HEADRACE_HOSTFILE": "/n/a/hostfile", "OMPI_MCA_plm_rsh_agent": "/n/a/bin/gang-rsh",
        "PRTE_MCA_plm_ssh_agent": "/n/a/bin/gang-rsh", "HYDRA_LAUNCHER_EXEC": "/n/a/bin/gang-rsh",
        "HEADRACE_LAUNCH_ADDRESS": "10.0.0.1:20011",
    }),
    "horovod": (PER_NODE, {"HEADRACE_HOSTFILE": "/n/a/hostfile"}),
    "deepspeed": (GANG, {"RANK": "3", "HEADRACE_HOSTFILE": "/n/a/hostfile"}),
    "dask": (GANG, {"DASK_SCHEDULER_ADDRESS": "tcp://10.0.0.1:20007"}),
    "ray": (GANG, {"RAY_ADDRESS": "10.0.0.1:20007"}),
    "spark": (PER_NODE, {
        "MASTER": "spark://10.0.0.1:20007", "SPARK_LOCAL_IP": "10.0.0.2",
        "SPARK_WORKER_CORES": "8",
    }),
    "scikit-learn": (GANG, {}),
    "caffe": (GANG, {}),
    "plain": (GANG, {}),
}  # fmt: skip
HEADRACE = {"HEADRACE_RANK", "HEADRACE_LOCAL_RANK", "HEADRACE_WORLD_SIZE"}
OF_ITS_OWN_CLUSTER = {
    "RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS", "MASTER", "HEADRACE_HOSTFILE", "OMPI_MCA_plm",
}  # fmt: skip


@pytest.mark.parametrize("named", TOLD)
def test_a_framework_is_told_who_its_process_is_in_its_own_names(named: str) -> None:
    place, expected = TOLD[named]

    told = environment(named.partition(",")[0], place)

    assert {name: told.get(name) for name in expected} == expected
    assert told["HEADRACE_WORLD_SIZE"] == str(place.world)


def test_every_framework_is_in_the_table() -> None:
    assert {named.partition(",")[0] for named in TOLD} | {""} == set(frameworks.FRAMEWORKS)


def test_a_named_framework_is_told_nothing_of_others() -> None:
    assert set(environment("plain", GANG)) == HEADRACE
    assert "TF_CONFIG" not in environment("pytorch", GANG)
    assert "RANK" not in environment("tensorflow", GANG)


def test_without_a_framework_all_that_do_not_conflict_are_told() -> None:
    told = environment("", GANG)

    assert {"RANK", "TF_CONFIG", "JAX_PROCESS_ID"} <= set(told)
    assert not [name for name in told if name.startswith("SLURM")]  # nobody is to believe in srun
    assert not OF_ITS_OWN_CLUSTER & set(told)  # a script's own Ray or mpirun stays its own
    assert frameworks.programs("") == ()


def test_no_framework_changes_how_many_processes_there_are() -> None:
    worlds = {environment(name, GANG)["HEADRACE_WORLD_SIZE"] for name in frameworks.FRAMEWORKS}

    assert worlds == {"4"}


@pytest.mark.parametrize("name", frameworks.FRAMEWORKS)
def test_no_place_is_too_odd_to_be_told(name: str) -> None:
    for place in (ALONE, GANG, PER_NODE, ELASTIC):
        told = environment(name, place)
        assert all(isinstance(value, str) and "\0" not in value for value in told.values())


def test_a_process_alone_has_no_cluster() -> None:
    told = environment("", ALONE)

    assert "TF_CONFIG" not in told
    assert (told["WORLD_SIZE"], ALONE.hostfile) == ("1", "localhost slots=1\n")


def test_an_elastic_gang_is_told_of_no_fixed_world() -> None:
    told = environment("", ELASTIC)

    assert not {"TF_CONFIG", "JAX_NUM_PROCESSES"} & set(told)


def test_slurms_job_is_a_number_as_its_readers_expect() -> None:
    number = environment("slurm", GANG)["SLURM_JOB_ID"]
    later = msgspec.structs.replace(GANG, attempt=4)

    assert 0 <= int(number) < 2**31
    assert environment("slurm", later)["SLURM_JOB_ID"] == number  # as one that was requeued


def test_nodes_of_one_machine_are_told_apart_where_torchrun_looks() -> None:
    here = msgspec.structs.replace(GANG, addresses=("127.0.0.1", "127.0.0.1"))

    assert environment("slurm", here)["PET_LOCAL_ADDR"] == "n2"
    assert "PET_LOCAL_ADDR" not in environment("slurm", GANG)


def test_a_task_of_an_array_knows_its_own_number_and_the_arrays() -> None:
    told = environment("slurm", msgspec.structs.replace(GANG, job="pretrain-b0c4/7"))

    assert told["SLURM_ARRAY_TASK_ID"] == "7"
    assert told["SLURM_ARRAY_JOB_ID"] == environment("slurm", GANG)["SLURM_JOB_ID"]
    assert told["SLURM_JOB_ID"] != told["SLURM_ARRAY_JOB_ID"]


def test_libraries_start_as_many_threads_as_the_process_has_cores() -> None:
    assert frameworks.defaults(GANG)["OMP_NUM_THREADS"] == "4"
    assert frameworks.defaults(PER_NODE)["LOKY_MAX_CPU_COUNT"] == "8"
    assert frameworks.defaults(ALONE) == {}


def test_mpis_launcher_goes_through_headrace_only_where_mpi_was_asked_for() -> None:
    assert "mpirun" in frameworks.programs("mpi")
    assert PER_NODE.hostfile == "n1 slots=2\nn2 slots=2\n"
    assert frameworks.programs("pytorch") == ()


@pytest.mark.parametrize(
    ("place", "hosts"),
    [
        (PER_NODE, "10.0.0.1 n1 rank-0\n10.0.0.2 n2 rank-1\n"),
        (
            ROLES,
            "10.0.0.1 n1 rank-0 ps-0\n10.0.0.1 n1 rank-1 worker-0\n10.0.0.2 n2 rank-2 worker-1\n",
        ),
        (ELASTIC, "10.0.0.1 n1\n10.0.0.2 n2\n"),
    ],
)
def test_workers_have_names_of_their_own_where_they_stay_the_same(place: Place, hosts: str) -> None:
    assert place.hosts == hosts
