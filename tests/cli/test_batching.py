"""Batch scripts submitted at the command line."""

import json

from tests.cli.program import accept, in_log
from tests.gateway.histories import project_made

SCRIPT = "#!/bin/bash\n#SBATCH --gpus-per-node=2 --job-name=train\nnvidia-smi\n"


async def test_a_batch_script_is_submitted_and_answered_as_slurm_does(world, headrace, tmp_path):
    await in_log(world, project_made("vision"))
    await accept(world, "job.submit", job="train-k3f9")
    (tmp_path / "train.sh").write_text(SCRIPT)
    assert await headrace("sbatch", "-A", "vision", "train.sh") == (
        0,
        "Submitted batch job train-k3f9\n",
        "",
    )
    document = json.loads(world.asked[0].data)
    assert document["resources"] == {"gpus": 2}
    assert document["project"] == "vision"
    assert document["workdir"].startswith("sha256:")


async def test_a_script_on_stdin_is_submitted(world, headrace):
    await in_log(world, project_made("vision"))
    await accept(world, "job.submit", job="sbatch-k3f9")
    script = SCRIPT.replace("--job-name=train", "-A vision")
    said = await headrace("sbatch", stdin=script.encode())
    assert said == (0, "Submitted batch job sbatch-k3f9\n", "")


async def test_scripts_around_sbatch_get_the_id_alone(world, headrace, tmp_path):
    await in_log(world, project_made("vision"))
    await accept(world, "job.submit", job="train-k3f9")
    (tmp_path / "train.sh").write_text(SCRIPT)
    assert await headrace("sbatch", "-A", "vision", "--parsable", "train.sh") == (
        0,
        "train-k3f9\n",
        "",
    )


async def test_a_script_is_read_as_windows_saves_it(world, headrace, tmp_path):
    await in_log(world, project_made("vision"))
    await accept(world, "job.submit", job="train-k3f9")
    for text in (SCRIPT, "\ufeff" + SCRIPT.replace("\n", "\r\n")):
        (tmp_path / "train.sh").write_bytes(text.encode())
        assert (await headrace("sbatch", "-A", "vision", "train.sh"))[0] == 0
    first, second = (json.loads(request.data) for request in world.asked)
    assert first["command"] == second["command"]
    assert second["resources"] == {"gpus": 2}


async def test_an_option_that_is_not_there_is_refused_by_name(headrace):
    code, out, err = await headrace("sbatch", "--nodelist=n1", "train.sh")
    assert (code, out) == (120, "")
    assert err.startswith("refused: --nodelist: not here; instead: pools in the job file")


async def test_all_that_is_refused_of_a_script_is_said_line_by_line(headrace):
    script = b"#!/bin/sh\n#SBATCH --foo\n#SBATCH --bar\ntrue\n"
    code, out, err = await headrace("sbatch", stdin=script)
    assert (code, out) == (120, "")
    assert [line[:20] for line in err.splitlines()] == [
        "refused: line 2: --f",
        "refused: line 3: --b",
    ]


async def test_a_script_that_cannot_be_read_is_one_line(headrace):
    assert await headrace("sbatch", "nowhere.sh") == (
        120,
        "",
        "refused: nowhere.sh: No such file or directory\n",
    )


async def test_its_help_lists_every_option_of_slurm(headrace):
    code, out, err = await headrace("sbatch", "--help")
    assert (code, err) == (0, "")
    assert "-G, --gpus " in out
    assert "--mail-user             no: headrace events" in out
