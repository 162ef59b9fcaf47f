"""What a job file comes to, and every value that is refused."""

import msgspec
import pytest

from headrace.documents import Plan, plan, read_job
from headrace.documents.plan import PRIORITIES
from headrace.events import Refusal
from headrace.events.asked import Accelerator, Gang

BASH = ("/bin/bash", "-e", "-o", "pipefail", "-c")


def planned(**fields):
    job = read_job({"command": "true"} | fields)
    assert not isinstance(job, Refusal), job
    found = plan(job)
    assert isinstance(found, Plan), found
    return found


def refused(**fields):
    job = read_job({"command": "true"} | fields)
    found = job if isinstance(job, Refusal) else plan(job)
    assert isinstance(found, Refusal), found
    return str(found)


def test_a_string_is_run_by_bash_and_a_list_is_run_as_it_is():
    assert planned(command="a | b").command == (*BASH, "a | b")
    assert planned(command=["a", 2, 0.5, True]).command == ("a", "2", "0.5", "true")
    assert planned(setup="pip install x").setup == (*BASH, "pip install x")
    assert planned().setup == ()


def test_a_plain_job_asks_for_one_core_and_a_gpu_job_for_its_gpus():
    assert planned().gang == Gang(cpu_milli=1000)
    assert planned(resources={"gpus": "0.5"}).gang == Gang(accelerators=(Accelerator(milli=500),))
    assert planned(resources={"gpus": 1, "cpu": 1.5}).gang.cpu_milli == 1500


def test_everything_under_resources_is_per_node():
    gang = planned(nodes=4, resources={"gpus": "H100:8", "memory": "512GB", "cpu": 64}).gang
    assert gang == Gang(
        nodes=4,
        accelerators=(Accelerator(milli=8000, model="H100"),),
        cpu_milli=64_000,
        memory_bytes=512 * 10**9,
    )


def test_memory_of_one_gpu_is_asked_for_instead_of_a_share():
    assert planned(resources={"gpu_memory": "10GB"}).gang == Gang(gpu_memory_bytes=10**10)
    kinds = planned(resources={"gpu_memory": "10GB", "gpus": "H100"}).gang.accelerators
    assert kinds == (Accelerator(milli=1000, model="H100"),)


def test_one_process_for_each_gpu_is_planned_when_asked_for():
    found = planned(resources={"gpus": 4}, processes_per_node="per-gpu")
    assert found.gang.per_gpu_processes
    assert not planned(resources={"gpus": 4}).gang.per_gpu_processes


def test_every_priority_has_its_number_in_order():
    numbers = [PRIORITIES[planned(priority=word).priority] for word in PRIORITIES]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 7


def test_a_whole_job_file_is_understood():
    found = planned(
        type="training", name="digits", project="vision", workdir="/srv/digits", setup="make",
        env={"PYTHONUNBUFFERED": 1, "FLAG": True, "LR": "0.1"}, secrets=["WANDB_API_KEY"],
        max_duration="4h", preemptibility="non-preemptible", framework="pytorch",
    )  # fmt: skip
    assert (found.name, found.project, found.workdir) == ("digits", "vision", "/srv/digits")
    assert found.env == {"PYTHONUNBUFFERED": "1", "FLAG": "true", "LR": "0.1"}
    assert (found.secrets, found.max_duration_us) == (("WANDB_API_KEY",), 14_400_000_000)
    assert not found.preemptible


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"command": ""}, "refused: command — must be given; command: python train.py"),
        ({"command": []}, "refused: command — must be given; command: python train.py"),
        ({"command": ["a\0b"]}, "refused: command — no program can be given a NUL character"),
        ({"type": "inference"}, "refused: type = inference — not yet; training or workspace"),
        ({"type": "trainin"}, "refused: type = trainin — is not one of the words known here; did you mean training?"),
        ({"nodes": 0}, "refused: nodes = 0 — must be a whole number from 1 to 1024"),
        ({"nodes": 1.5}, "refused: nodes = 1.5 — must be a whole number from 1 to 1024"),
        ({"nodes": 5000}, "refused: nodes = 5000 — must be a whole number from 1 to 1024"),
        ({"nodes": "8..2"}, "refused: nodes = 8..2 — the minimum is above the maximum; 2..8"),
        ({"nodes": "0..2"}, "refused: nodes = 0 — must be a whole number from 1 to 1024"),
        ({"resources": {"gpus": "1g.10gb", "gpu_memory": "5GB"}}, "refused: resources.gpu_memory = 5GB — shares cannot be cut from MIG slices; leave it out"),
        ({"pools": ["Train"]}, "refused: pools[0] = Train — has 1 to 41 of a-z 0-9 and '-', not starting with '-'"),
        ({"pools": ["a", "a"]}, "refused: pools[1] = a — is named twice"),
        ({"pools": list("abcdefghi")}, "refused: pools — has at most 8 pools"),
        ({"topology": {"required": "a rack"}}, "refused: topology.required = a rack — has 1 to 63 letters, digits and . _ / -, beginning with a letter or digit"),
        ({"topology": {"require": "rack"}}, "refused: topology.require — unknown field; did you mean required?"),
        ({"framework": "mpi", "nodes": "2..4"}, "refused: framework = mpi — its processes cannot come and go; nodes: 2"),
        ({"framework": "tensorflw"}, "refused: framework = tensorflw — is not one of the words known here; did you mean tensorflow?"),
        ({"processes_per_node": 2}, "refused: processes_per_node = 2 — not yet; 1, and let the command start its own, or per-gpu"),
        ({"processes_per_node": "per-gpu"}, "refused: processes_per_node = per-gpu — there is no GPU to start a process for; resources: {gpus: 2}"),
        ({"name": "A b"}, "refused: name = A b — has 1 to 41 of a-z 0-9 and '-', not starting with '-'"),
        ({"project": "*.>"}, "refused: project = *.> — has 1 to 41 of a-z 0-9 and '-', not starting with '-'"),
        ({"workdir": "."}, "refused: workdir = . — a folder travels from the machine where headrace submits it; here it is no folder; headrace submit, git+https://host/repo@<commit>, or an absolute path on the nodes"),
        ({"workdir": "git+https://x/y@main"}, "refused: workdir = git+https://x/y@main — must name a commit (7 to 40 of 0-9 a-f): a branch is another folder tomorrow; git rev-parse HEAD"),
        ({"workdir": "git+https://x/y"}, "refused: workdir = git+https://x/y — is not a repository and a commit; git+https://host/repo@<commit>"),
        ({"workdir": "git+ext://sh@7c1e4d2"}, "refused: workdir = git+ext://sh@7c1e4d2 — is not a repository and a commit; git+https://host/repo@<commit>"),
        ({"workdir": "git+https://me:pw@x/y@7c1e4d2"}, "refused: workdir — has a password in it, which would be recorded; secrets:, and a credential helper on the nodes"),
        ({"workdir": "sha256:abc"}, "refused: workdir = sha256:abc — is not the name of a folder's content"),
        ({"workdir": "/a\nb"}, "refused: workdir = /a?b — has at most 1024 printable characters"),
        ({"volumes": ["data"]}, "refused: volumes[0] = data — is not name:/path[:ro]; datasets:/data:ro, or job/<id>:/inputs"),
        ({"volumes": ["data:/a/../etc"]}, "refused: volumes[0] = /a/../etc — must not lead upwards; /data"),
        ({"volumes": ["data:/etc/"]}, "refused: volumes[0] = /etc/ — is the system's own; /data"),
        ({"volumes": ["data:/x:rx"]}, "refused: volumes[0] = data:/x:rx — is not name:/path[:ro]; datasets:/data:ro, or job/<id>:/inputs"),
        ({"volumes": ["a:/x", "b:/x/"]}, "refused: volumes[1] = /x — something is there already"),
        ({"volumes": ["b:/x/y", "a:/x:ro"]}, "refused: volumes[0] = /x/y — lies in /x, which is read-only; a place outside /x"),
        ({"volumes": ["job/a-1:/in", "b:/in/deep/y"]}, "refused: volumes[1] = /in/deep/y — lies in /in, which is read-only; a place outside /in"),
        ({"volumes": ["a:x", "job/a-1:x/y"]}, "refused: volumes[1] = x/y — lies in x, which is a volume; a place outside x"),
        ({"volumes": ["job/../x:/in"]}, "refused: volumes[0] = ../x — is not a job's id; job/features-7qk2:/inputs"),
        ({"volumes": ["job/a-1:/in:rw"]}, "refused: volumes[0] = job/a-1:/in:rw — what a job left behind does not change; job/a-1:/in"),
        ({"outputs": ["/model"]}, "refused: outputs[0] = /model — is below the working directory; model/"),
        ({"outputs": ["../model"]}, "refused: outputs[0] = ../model — must not lead upwards; model/"),
        ({"outputs": ["model"], "workdir": "/srv"}, "refused: outputs = model — are below a working directory of the job's own, which a folder of the nodes is not; write into $HEADRACE_OUTPUT_DIR"),
        ({"python": 3.12}, 'refused: python = 3.12 — must be in quotes: 3.10 would be 3.1; "3.12"'),
        ({"python": "three"}, 'refused: python = three — is not a version of Python; "3.12"'),
        ({"volumes": ["d:/d", "job/a-1:/in"], "image": "pytorch"}, "refused: volumes = job/a-1:/in — not yet; leave out image:"),
        ({"python": "3.12", "image": "pytorch"}, "refused: python = 3.12 — a job has either image: or python:"),
        ({"max_duration": "3w"}, "refused: max_duration = 3w — is not a duration; 90s, 15m, 8h or 3d"),
        ({"max_duration": "9999d"}, "refused: max_duration = 9999d — is longer than a year; leave it out"),
        ({"resources": {"gpus": 0.5, "gpu_memory": "8GB"}}, "refused: resources.gpu_memory = 8GB — is memory of one GPU; leave gpus out, or name one GPU (gpus: H100)"),
        ({"env": {"WANDB_API_KEY": "x"}}, "refused: env.WANDB_API_KEY — looks like a credential, and env is recorded in the log; put it under secrets: (or --allow-plain-secret)"),
        ({"env": {"A": None}}, "refused: env.A — has no value: only the command line can copy it from your shell; A: some value"),
        ({"env": {"A-B": "1"}}, "refused: env = A-B — has 1 to 128 letters, digits and _, no digit first"),
        ({"env": {"HEADRACE_JOB_ID": "1"}}, "refused: env.HEADRACE_JOB_ID — names with HEADRACE_ are Headrace's own"),
        ({"env": {"A": "\0"}}, "refused: env.A — no environment can hold a NUL character"),
        ({"secrets": ["A", "A"]}, "refused: secrets = A — is named twice"),
        ({"secrets": ["A"], "env": {"A": "1"}}, "refused: secrets = A — is in env: too; leave it out of env:"),
        ({"array": "5..9"}, "refused: array = 5..9 — not yet; 0..4"),
        ({"array": "0..9", "sweep": {}}, "refused: array = 0..9 — a job has either array: or sweep:"),
        ({"command": "x ${{ params.lr }}"}, "refused: command = ${{ params.lr }} — no such value; known: job.id, project"),
        ({"command": "x ${{ event.data }}"}, "refused: command = ${{ event.data }} — not yet"),
        ({"command": "x ${{ job.index }}"}, "refused: command = ${{ job.index }} — only a task of an array or a sweep has an index; add array: or sweep:"),
        ({"env": {"A": "${{ job.ide }}"}}, "refused: env.A = ${{ job.ide }} — no such value; did you mean job.id?"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(fields, said):
    assert refused(**fields) == said


@pytest.mark.parametrize(
    "name",
    ["MY_TOKEN", "secret_x", "DB_PASSWORD", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"],
)
def test_a_credential_is_kept_out_of_env_unless_its_owner_insists(name):
    assert "put it under secrets:" in refused(env={name: "x"})
    assert planned(env={name: "x"}, allow_plain_secret=True).env == {name: "x"}


def test_what_only_sounds_like_a_credential_passes():
    env = {"TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "us"}
    assert planned(env=env).env == env


def test_per_gpu_processes_need_the_same_count_in_every_preference():
    said = refused(resources={"gpus": ["H100:8", "A100:4"]}, processes_per_node="per-gpu")
    assert "not yet" in said


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "x" * 70_000},
        {"command": ["x"] * 2_000},
        {"env": {f"A{i}": "x" for i in range(300)}},
        {"env": {"A": "x" * 70_000}},
        {"secrets": [f"A{i}" for i in range(65)]},
        {"command": "${{ project }}" * 300},
    ],
)
def test_every_size_has_its_limit(fields):
    assert "at most" in refused(**fields)


def test_a_plan_is_the_same_after_being_written_down():
    found = planned(array="0..3%2", resources={"gpus": "0.5"})
    assert msgspec.json.decode(msgspec.json.encode(found), type=Plan) == found


def test_pools_and_levels_are_asked_for_in_the_order_given():
    gang = planned(
        pools=["train", "spot"], topology={"required": "rack", "preferred": "nvlink-domain"}
    ).gang
    assert gang == Gang(
        cpu_milli=1000,
        pools=("train", "spot"),
        topology_required="rack",
        topology_preferred="nvlink-domain",
    )


def test_a_range_of_one_size_is_that_size():
    assert planned(nodes="2..2").gang == planned(nodes=2).gang


def test_of_a_gang_that_never_grows_the_minimum_is_all_of_it():
    found = planned(nodes=2, preemptibility="semi-preemptible")
    assert (found.preemptible, found.protected_minimum) == (False, True)
    assert not planned(preemptibility="non-preemptible").protected_minimum


def test_an_elastic_gang_gives_up_what_it_has_above_its_minimum():
    found = planned(nodes="2..8", preemptibility="semi-preemptible")
    assert (found.gang.nodes, found.gang.nodes_max) == (2, 8)
    assert (found.preemptible, found.protected_minimum) == (True, True)


@pytest.mark.parametrize(
    ("value", "after_us"),
    [
        ("keep", 0),
        ({"replace_after": "60s"}, 60_000_000),
        ({"replace_after": "5m"}, 300_000_000),
        ({"replace_after": "7d"}, 7 * 86_400_000_000),
    ],
)
def test_a_job_is_kept_or_replaced_when_its_node_cannot_be_heard(value, after_us):
    assert planned(on_disconnect=value).replace_after_us == after_us


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("stop", "on_disconnect = stop — is not one of the words known here"),
        ({}, "on_disconnect = nothing — must name replace_after alone"),
        ({"replace_after": "5m", "x": "1"}, "must name replace_after alone"),
        ({"replace_after": "59s"}, "on_disconnect.replace_after = 59s — is shorter than 60s"),
        ({"replace_after": "8d"}, "is longer than 7d"),
        ({"replace_after": "soon"}, "on_disconnect.replace_after = soon"),
    ],
)
def test_what_else_a_disconnect_may_do_is_refused(value, said):
    assert said in refused(on_disconnect=value)


def test_a_job_with_an_image_asks_for_a_node_with_an_engine():
    found = planned(image="registry.example.com:5000/team/train:v2")
    assert found.image == "registry.example.com:5000/team/train:v2"
    assert found.gang.contained
    assert not planned().gang.contained


@pytest.mark.parametrize("image", ["-x", "Train:1", "a b", "x:", "https://x/y", "${{ params.x }}"])
def test_what_is_no_name_of_an_image_is_refused(image):
    assert refused(image=image).startswith(
        f"refused: image = {image} — is not the name of an image"
    )


def test_shared_memory_is_a_containers():
    assert planned(image="x", resources={"shm": "64GB"}).shm_bytes == 64 * 10**9
    assert "resources.shm = 64GB" in refused(resources={"shm": "64GB"})


def test_one_process_per_gpu_in_a_container_is_not_yet():
    text = refused(image="x", resources={"gpus": 2}, processes_per_node="per-gpu")
    assert "not yet" in text
    assert "torchrun" in text


def test_what_a_container_has_not_yet_is_refused_in_roles_too():
    roles = {"ps": {"resources": {"gpus": 1}, "processes_per_node": "per-gpu"}}
    assert "roles.ps.processes_per_node" in refused(image="x", roles=roles)
    assert "roles.ps.resources.shm" in refused(
        image="x", roles={"ps": {"resources": {"shm": "1GB"}}}
    )
