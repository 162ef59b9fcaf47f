"""Batch scripts run by real shells: what they find, and what `srun` starts."""

import os
import signal
import subprocess

import pytest

from headrace.documents import frameworks
from headrace.documents.frameworks.slurm import bracketed, number_of
from headrace.node_agent.programs import SLURM_COMMANDS
from headrace.slurm import batch_of

DEADLINE_S = 60


@pytest.fixture
def attempt(tmp_path):
    """Runs a batch script as a worker of node `rank` of `nodes` would be run."""

    def begun(script, *words, rank=0, nodes=1, job="train-k3f9", stderr=subprocess.PIPE, **more):
        document = batch_of([*words, "train.sh"], script, {}).document
        names = tuple(f"n{number}" for number in range(1, nodes + 1))
        place = frameworks.Place(
            job=job, attempt=1, folder=str(tmp_path), node_rank=rank, names=names,
            addresses=("127.0.0.1",) * nodes, ports=(0,) * nodes, slots=(1,) * nodes, cores=8,
        )  # fmt: skip
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        for name in frameworks.programs(document["framework"]):
            (programs / name).write_text(SLURM_COMMANDS)
            (programs / name).chmod(0o700)
        reports = tmp_path / "reports"
        reports.mkdir(exist_ok=True)
        env = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HEADRACE_JOB_ID": job,
            "HEADRACE_ATTEMPT": "1",
            "HEADRACE_REPORT_DIR": str(reports),
            "HEADRACE_STOP_REASON_FILE": str(tmp_path / "stop"),
            **document.get("env", {}),
            **more,
            **frameworks.environment(document["framework"], place),
        }
        work = tmp_path / f"work-{rank}"
        work.mkdir(exist_ok=True)
        return subprocess.Popen(
            document["command"], env=env, cwd=work, text=True,
            stdout=subprocess.PIPE, stderr=stderr, start_new_session=True,
        )  # fmt: skip

    return begun


def ended(process):
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def test_the_script_is_run_by_its_own_interpreter_with_its_arguments(attempt):
    script = "#!/usr/bin/env python3\nimport sys; print(sys.argv[1:]); sys.exit(3)\n"
    assert ended(attempt(script)) == (3, "[]\n", "")


def test_slurm_names_are_there(attempt):
    script = (
        "#!/bin/sh\n"
        "echo $SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_NNODES $SLURM_NODEID $SLURM_NTASKS"
        " $SLURM_NTASKS_PER_NODE $SLURM_CPUS_PER_TASK $SLURM_CPUS_ON_NODE $SLURM_TASKS_PER_NODE"
        " $SLURM_JOB_PARTITION ${SLURMD_NODENAME:+named}\n"
    )
    words = ["-N2", "--ntasks-per-node=4", "-c2", "-p", "train,spot", "-J", "My Job"]
    said = ended(attempt(script, *words, rank=1, nodes=2))[1]
    assert said == f"{number_of('train-k3f9')} My Job 2 1 8 4 2 8 4(x2) train named\n"
    assert ended(attempt("#!/bin/sh\necho $SLURM_TASKS_PER_NODE\n", "-n4"))[1] == "4\n"


def test_srun_starts_the_tasks_of_every_node_once(attempt):
    script = "#!/bin/bash\nsrun bash -c 'echo $SLURM_PROCID.$SLURM_LOCALID/$SLURM_NTASKS'\n"
    words = ["-N2", "--ntasks-per-node=2"]
    told = [ended(attempt(script, *words, rank=rank, nodes=2))[1].split() for rank in (0, 1)]
    assert [sorted(lines) for lines in told] == [["0.0/4", "1.1/4"], ["2.0/4", "3.1/4"]]


@pytest.mark.parametrize(("step", "counts"), [("-n1", (1, 0)), ("-n 3", (2, 1)), ("-N1", (2, 0))])
def test_a_smaller_step_is_the_first_ranks(attempt, step, counts):
    script = f"#!/bin/bash\nsrun {step} echo here\n"
    words = ["-N2", "--ntasks-per-node=2"]
    told = [ended(attempt(script, *words, rank=rank, nodes=2)) for rank in (0, 1)]
    assert tuple(out.count("here") for _, out, _ in told) == counts
    assert [code for code, _, _ in told] == [0, 0]


def test_srun_ends_with_the_worst_code_and_labels_its_tasks(attempt):
    script = "#!/bin/bash\nsrun -l bash -c 'echo hi; exit $((SLURM_PROCID * 3))'\n"
    code, out, _ = ended(attempt(script, "--ntasks-per-node=3"))
    assert (code, sorted(out.splitlines())) == (6, ["0: hi", "1: hi", "2: hi"])


@pytest.mark.parametrize(
    "step", ["--mpi=openmpi true", "--multi-prog x", "-n x true", "-N3 true", ""]
)
def test_srun_refuses_what_it_cannot_do(attempt, step):
    code, _, err = ended(attempt(f"#!/bin/bash\nsrun {step}\n"))
    assert code == 2
    assert err.startswith("srun: ")


def test_output_is_in_its_file_and_followed_too(attempt, tmp_path):
    script = "#!/bin/bash\necho out; echo err >&2\n"
    words = ["-o", "logs/%x-%A_%a-%%.out", "-a", "0-3"]
    process = attempt(script, *words, job="train-k3f9/2")
    code, out, _ = ended(process)
    assert (code, sorted(out.split())) == (0, ["err", "out"])
    kept = tmp_path / "work-0" / "logs" / f"train-{number_of('train-k3f9')}_2-%.out"
    assert sorted(kept.read_text().split()) == ["err", "out"]


@pytest.mark.parametrize(
    ("array", "numbers"),
    [("0-2", "0 1 2"), ("1-10:4", "1 5 9"), ("3,1,2-3", "1 2 3"), ("08,9-10", "8 9 10")],
)
def test_a_task_of_an_array_finds_its_number(attempt, tmp_path, array, numbers):
    script = "#!/bin/bash\necho $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT\n"
    for index, number in enumerate(numbers.split()):
        task = attempt(script, "-a", array, "-o", "%a.out", job=f"train-k3f9/{index}")
        code, out, err = ended(task)
        assert (code, out, err) == (0, f"{number} 3\n", "")
        assert (tmp_path / "work-0" / f"{number}.out").read_text() == out


def test_errors_have_a_file_of_their_own(attempt, tmp_path):
    script = "#!/bin/bash\necho out; echo err >&2\n"
    code, out, err = ended(attempt(script, "-o", "o", "-e", "e"))
    assert (code, out, err) == (0, "out\n", "err\n")
    kept = [(tmp_path / "work-0" / name).read_text() for name in "oe"]
    assert kept == ["out\n", "err\n"]


def test_the_script_hears_a_signal_that_is_for_it(attempt):
    script = (
        "#!/bin/bash\ntrap 'echo saved; exit 7' USR1\necho ready\nwhile :; do sleep 0.05; done\n"
    )
    process = attempt(script, "--signal=B:USR1@60")
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGUSR1)
    assert ended(process)[:2] == (7, "saved\n")


def test_a_signal_for_the_tasks_leaves_the_script_alone(attempt):
    script = (
        "#!/bin/bash\n"
        "srun bash -c 'trap \"echo saved; exit 7\" USR1; echo ready; while :; do sleep 0.05; done'\n"
        'echo "ended with $?"\n'
    )
    process = attempt(script, "--signal=USR1@60")
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGUSR1)
    assert ended(process)[:2] == (0, "saved\nended with 7\n")


def said(attempt, script, *words, **of):
    return ended(attempt(f"#!/bin/bash\n{script}\n", *words, **of))


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("n1", "n1"),
        ("n[1-3]", "n1 n2 n3"),
        ("gpu[08-10,12],login", "gpu08 gpu09 gpu10 gpu12 login"),
        ("a1,b[1,3]", "a1 b1 b3"),
    ],
)
def test_lists_of_nodes_are_taken_apart_as_they_were_put_together(attempt, written, names):
    assert bracketed(tuple(names.split())) == written
    assert said(attempt, f"scontrol show hostnames '{written}'")[1].split() == names.split()


def test_the_usual_ways_to_find_the_first_node_and_a_port_work(attempt):
    script = (
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        "port=$((10000 + SLURM_JOBID % 20000))\n"
        'echo "$head $((port > 9999)) $SLURM_NODELIST"'
    )
    assert said(attempt, script, "-N2", nodes=2)[1] == "n1 1 n[1-2]\n"


def test_a_job_can_look_at_itself(attempt):
    script = 'squeue -h -j $SLURM_JOB_ID -o "%A %T %D"; scontrol show job $SLURM_JOB_ID'
    code, out, _ = said(attempt, script)
    first, second = out.splitlines()[:2]
    assert (code, first) == (0, f"{number_of('train-k3f9')} RUNNING 1")
    assert second == f"JobId={number_of('train-k3f9')} JobName=train"


def test_what_concerns_others_says_what_it_takes(attempt):
    for command in ("scancel 4711", "squeue -u ada -p x", "sbatch other.sh", "sacct -j 4711"):
        code, _, err = said(attempt, command)
        assert (code, err.startswith(f"{command.split()[0]}: a job knows of itself")) == (2, True)


def test_who_asks_to_be_requeued_says_so_to_its_node(attempt, tmp_path):
    assert said(attempt, "scontrol requeue $SLURM_JOB_ID")[0] == 0
    assert (tmp_path / "reports" / "requeue").exists()


def test_tasks_find_no_ranks_of_their_node(attempt):
    script = "export RANK=0 WORLD_SIZE=1\nsrun bash -c 'echo ${RANK-none} $SLURM_PROCID'"
    out = said(attempt, script, "--ntasks-per-node=2")[1]
    assert sorted(out.splitlines()) == ["none 0", "none 1"]


def test_usual_flags_of_srun_are_understood(attempt, tmp_path):
    flags = "--cpu-bind=none --gpu-bind=none -c 2 --export=ALL,MODE=fast --mpi=pmix -u --exact"
    script = f"srun {flags} -o 'out-%t.txt' bash -c 'echo $MODE $SLURM_PROCID'"
    assert said(attempt, script, "--ntasks-per-node=2") == (0, "", "")
    texts = [(tmp_path / "work-0" / f"out-{task}.txt").read_text() for task in (0, 1)]
    assert texts == ["fast 0\n", "fast 1\n"]


def test_a_flag_that_is_not_known_is_named(attempt):
    assert said(attempt, "srun --frobnicate=1 true")[2] == "srun: --frobnicate=1: not known here\n"


def test_a_step_for_one_node_runs_there_alone(attempt):
    script = "srun -N1 -n1 -w n2 echo here"
    told = [said(attempt, script, "-N2", rank=rank, nodes=2)[1] for rank in (0, 1)]
    assert told == ["", "here\n"]


def test_tasks_see_the_gpus_that_are_theirs(attempt):
    script = "srun bash -c 'echo $SLURM_LOCALID $CUDA_VISIBLE_DEVICES'"
    words = ["--ntasks-per-node=2", "--gpus-per-task=2"]
    out = said(attempt, script, *words, CUDA_VISIBLE_DEVICES="a,b,c,d")[1]
    assert sorted(out.splitlines()) == ["0 a,b", "1 c,d"]
