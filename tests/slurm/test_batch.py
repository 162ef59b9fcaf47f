"""Batch scripts and the job files they come to."""

from pathlib import Path

import pytest

import headrace.slurm
from headrace.documents import plan, read_job
from headrace.events import Refusal
from headrace.slurm import OPTIONS, SlurmError, batch_of
from headrace.slurm.batch import script_of
from headrace.slurm.options import table

BASH = "#!/bin/bash\n"


def document(*words, script=BASH + "hostname\n", **environment):
    return batch_of([*words, "train.sh"], script, environment).document


def refusal(*words, script=BASH):
    with pytest.raises(SlurmError) as raised:
        batch_of([*words, "train.sh"], script, {})
    return str(raised.value)


def test_a_script_says_what_its_lines_say():
    script = (
        "#!/bin/bash\n"
        "# A comment\n"
        "#SBATCH --job-name=My_Training --time=1-12:00:00\n"
        "#SBATCH -N 2 --ntasks-per-node=4 -c 8   # cores of each task\n"
        "#SBATCH --gres=gpu:H100:4\n"
        "#SBATCH --mem=64G\n"
        "##SBATCH --time=1\n"
        "\n"
        "srun python train.py\n"
        "#SBATCH --time=5\n"
    )
    found = document(script=script)
    assert found["name"] == "my-training"
    assert found["nodes"] == 2
    assert found["resources"] == {"gpus": "H100:4", "cpu": 32, "memory": "65536MiB"}
    assert found["max_duration"] == "129600s"
    assert found["command"][-1] == script


def test_the_command_line_wins_over_the_script():
    script = BASH + "#SBATCH --partition=slow,spare\n#SBATCH --gpus-per-node=1\n"
    found = document("--partition", "train", script=script)
    assert found["pools"] == ["train"]
    assert found["resources"] == {"gpus": 1}


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        (["--gres=gpu"], 1),
        (["--gres=gpu:2"], 2),
        (["--gres=gpu:a100"], "a100:1"),
        (["--gres", "gpu:a100:8"], "a100:8"),
        (["--gpus=8", "--nodes=4"], 2),
        (["-G", "H100:8", "-N4"], "H100:2"),
        (["--gpus-per-node=H100:2"], "H100:2"),
        (["--gpus-per-task=2", "--ntasks-per-node=4"], 8),
    ],
)
def test_gpus_are_counted_per_node(words, gpus):
    assert document(*words)["resources"]["gpus"] == gpus


@pytest.mark.parametrize(
    ("words", "nodes", "tasks"),
    [
        ([], 1, None),
        (["-N", "3"], 3, None),
        (["-n8", "--ntasks-per-node=4"], 2, "4"),
        (["-n8", "-N2"], 2, "4"),
        (["--ntasks-per-gpu=1", "--gpus-per-node=4"], 1, "4"),
    ],
)
def test_tasks_are_dealt_to_the_nodes(words, nodes, tasks):
    found = document(*words)
    assert (found["nodes"], found.get("env", {}).get("BATCH_TASKS")) == (nodes, tasks)


@pytest.mark.parametrize(
    ("written", "duration"),
    [
        ("90", "5400s"),
        ("30:15", "1815s"),
        ("1:30:00", "5400s"),
        ("2-12", "216000s"),
        ("2-12:30", "217800s"),
        ("2-12:30:01", "217801s"),
        ("UNLIMITED", None),
        ("0", None),
    ],
)
def test_times_are_written_in_every_way(written, duration):
    assert document("--time", written).get("max_duration") == duration


@pytest.mark.parametrize(
    ("words", "memory"),
    [
        (["--mem=4096"], "4096MiB"),
        (["--mem=1T"], "1048576MiB"),
        (["--mem=1000K"], "1MiB"),
        (["--mem-per-cpu=2G", "-c", "4"], "8192MiB"),
        (["--mem-per-gpu=10G", "--gres=gpu:2"], "20480MiB"),
        (["--mem=8GB"], "8192MiB"),
        (["--mem=0"], None),
    ],
)
def test_memory_is_counted_per_node(words, memory):
    assert document(*words).get("resources", {}).get("memory") == memory


def test_arrays_dependencies_signals_and_retries_have_their_fields():
    found = document(
        "-a", "0-15%4", "--dependency=afterok:prep-a:prep-b,afterany:clean-c",
        "--signal=B:USR1@120", "--requeue", "--qos=high", "-A", "vision",
    )  # fmt: skip
    assert found["array"] == "0..15%4"
    assert found["after"] == [
        {"job": "prep-a", "state": "succeeded"},
        {"job": "prep-b", "state": "succeeded"},
        {"job": "clean-c", "state": "finished"},
    ]
    assert found["checkpoint"] == {"signal": "B:USR1", "grace": "120s"}
    assert found["retry"] == {"on": ["node-lost"], "attempts": 3}
    assert (found["priority"], found["project"]) == ("high", "vision")
    assert found["env"] == {
        "SLURM_ARRAY_TASK_ID": "${{ job.index }}",
        "SLURM_ARRAY_TASK_COUNT": "16",
        "SLURM_ARRAY_TASK_MIN": "0",
        "SLURM_ARRAY_TASK_MAX": "15",
        "SLURM_ARRAY_TASK_STEP": "1",
    }


@pytest.mark.parametrize(
    ("text", "field", "least", "most", "step"),
    [
        ("1-10", "0..9", "1", "10", "1"),
        ("1-10:3%2", "0..3%2", "1", "10", "3"),
        ("2-7:3", "0..1", "2", "5", "3"),
        ("7,1,3", "0..2", "1", "7", "1"),
        ("1-3,2-4:2,9%1", "0..4%1", "1", "9", "1"),
        ("5", "0..0", "5", "5", "1"),
    ],
)
def test_an_array_has_the_numbers_it_has_in_slurm(text, field, least, most, step):
    found = document(f"--array={text}")
    assert not isinstance(read_job(found), Refusal)
    assert found["array"] == field
    told = [found["env"][f"SLURM_ARRAY_TASK_{name}"] for name in ("MIN", "MAX", "STEP")]
    assert told == [least, most, step]


def test_a_job_of_unlike_parts_is_refused_with_what_it_is_here():
    parts = "#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 2\n"
    assert refusal(script=BASH + parts) == "line 3: hetjob: not here; instead: roles: in a job file"
    assert refusal("-N1", ":", "-N2") == "a colon: not here; instead: roles: in a job file"


def test_only_variables_that_are_named_travel():
    assert document("--export=DATE,MODE=fast", DATE="today", AWS="x")["env"] == {
        "DATE": "today",
        "MODE": "fast",
    }
    assert "env" not in document(AWS="x")
    batch = batch_of(["--export=ALL,MODE=fast", "train.sh"], BASH, {"AWS": "x"})
    assert batch.document["env"] == {"MODE": "fast"}
    assert batch.remarks[0].startswith("--export=ALL,MODE=fast: only variables that are named")


def test_files_of_output_are_kept():
    found = document("--output=logs/%x-%j.out", "-e", "logs/%x-%j.err")
    assert found["outputs"] == ["logs/*-*.out", "logs/*-*.err"]
    assert found["env"]["BATCH_OUTPUT"] == "logs/%x-%j.out"


def test_a_command_can_be_wrapped():
    batch = batch_of(["--gpus=1", "--wrap", "nvidia-smi -L", "--parsable"], "", {})
    assert batch.document["name"] == "wrap"
    assert batch.document["command"][-1] == "#!/bin/sh\nnvidia-smi -L\n"
    assert batch.switches == {"parsable"}


def test_arguments_behind_the_script_are_the_scripts():
    words = ["--gpus=1", "train.sh", "--time=5", "x y"]
    assert script_of(words) == "train.sh"
    found = batch_of(words, BASH, {}).document
    assert found["command"][-3:] == [BASH, "--time=5", "x y"]
    assert "max_duration" not in found


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--gpuss=2"], "--gpuss: sbatch has no such option; did you mean --gpus?"),
        (["-Z"], "-Z: sbatch has no such option"),
        (["--nodelist=n1"], "--nodelist: not here; instead: pools in the job file, or --partition"),
        (["--uid=me"], "--uid: leave it out: jobs run as"),
        (["--gres=fpga:1"], "--gres=fpga:1: only GPUs are handed out; gpu:2 or gpu:H100:2"),
        (["--gpus=3", "-N2"], "--gpus=3: cannot be dealt evenly to 2 nodes; --gpus-per-node=1"),
        (["-n5", "-N2"], "--ntasks=5: cannot be dealt evenly to 2 nodes with 2 tasks each"),
        (["--nodes=2-4"], "--nodes=2-4: a range would let the job grow"),
        (["--array=5-1"], "--array=5-1: is no array; 0-15, 1-10:3, 1,3,7 and 0-15%4 are"),
        (["--array=1,,3"], "--array=1,,3: is no array"),
        (["--array="], "--array: is no array"),
        (["--array=1-9:0"], "--array=1-9:0: is no array"),
        (["--array=1%2,3"], "--array=1%2,3: is no array"),
        (["--array=1-9%0"], "--array=1-9%0: none at a time would never end; 1-9%1"),
        (["--array=1-999999999"], "--array=1-999999999: an array has at most 1000 tasks; 0-999"),
        (["--time=soon"], "--time=soon: is no time; 90, 1:30:00 and 2-12:00:00 are"),
        (["--mem=8X"], "--mem=8X: is no size; 4096 (MiB), 16G and 1T are"),
        (["--mem-per-gpu=8G"], "--mem-per-gpu=8G: there is no GPU; --mem"),
        (["--gres=gpu:1", "--gpus=1"], "--gpus=1: --gres says how many GPUs already"),
        (["--output=%t.out"], "--output=%t.out: %t is not filled in here"),
        (["--dependency=singleton"], "--dependency=singleton: singleton is not known here"),
        (["--signal=9@60"], "--signal=@60: is no signal"),
        (["--requeue=yes"], "--requeue=yes: takes no value"),
        (["--requeue", "--no-requeue"], "--no-requeue: --requeue says the opposite"),
        (["--nodes=0"], "--nodes=0: must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_is_refused_by_name(words, line):
    assert refusal(*words).startswith(line)


def test_a_wrong_line_of_the_script_is_named():
    assert refusal(script=BASH + "#SBATCH --hold\n").startswith("line 2: --hold: not here")
    assert refusal(script=BASH + "#SBATCH 'x\n") == "line 2: no closing quotation"
    assert refusal(script=BASH + "#SBATCH --hold train\n").startswith("line 2: --hold")
    assert refusal(script="python train.py\n").startswith("train.sh: does not begin with #!")
    assert "template" in refusal(script=BASH + "echo ${{ job.id }}\n")


def test_what_changes_nothing_is_taken_and_said():
    script = BASH + "#SBATCH --mail-type=END\n#SBATCH --mail-user=me@x\n#SBATCH -q regular -C gpu\n"
    batch = batch_of(["train.sh"], script, {})
    assert "priority" not in batch.document
    assert [remark.partition(":")[0] for remark in batch.remarks] == [
        "--mail-type", "--mail-user", "--constraint", "--qos=regular",
    ]  # fmt: skip


def test_all_that_is_wrong_with_a_script_is_said_at_once():
    lines = refusal(script=BASH + "#SBATCH --hold\n#SBATCH --frob\n#SBATCH -N 2\n").splitlines()
    assert [line[:14] for line in lines] == ["line 2: --hold", "line 3: --frob"]
    wrong = refusal("--time=soon", "--nodes=0", "--array=5-1").splitlines()
    assert sorted(line.partition("=")[0] for line in wrong) == ["--array", "--nodes", "--time"]


def test_signals_have_their_numbers_too():
    assert document("--signal=B:10@90")["checkpoint"] == {"signal": "B:USR1", "grace": "90s"}


def test_every_option_is_translated_or_has_something_instead():
    for option in OPTIONS:
        assert bool(option.field) != bool(option.instead), option.name
        assert not (option.unused and option.field), option.name
    letters = [option.letter for option in OPTIONS if option.letter]
    assert len(letters) == len(set(letters))
    assert [option.name for option in OPTIONS] == sorted(option.name for option in OPTIONS)


def test_what_it_comes_to_is_a_job_file():
    words = ["-N2", "--ntasks-per-node=2", "--gres=gpu:2", "--mem=8G", "-t", "5", "-D", "/srv"]
    job = read_job(document(*words))
    assert not isinstance(job, Refusal), job
    planned = plan(job)
    assert not isinstance(planned, Refusal), planned
    assert planned.gang.nodes == 2
    assert planned.max_duration_us == 300_000_000


def test_the_readme_lists_every_option():
    readme = (Path(headrace.slurm.__file__).parent / "README.md").read_text()
    assert readme.endswith(f"\n\n{table()}\n")
