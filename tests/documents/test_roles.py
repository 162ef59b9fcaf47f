"""Jobs whose workers differ, as job files have them."""

import pytest

from headrace.documents import JobFile, Plan, plan, read_job
from headrace.events import Refusal
from headrace.events.asked import Accelerator, Gang, Role

PS = {"nodes": 1, "resources": {"cpu": 8, "memory": "32GB"}, "command": "python ps.py"}
WORKER = {"nodes": "2..6", "resources": {"gpus": 1}}


def found(**fields):
    job = read_job({"command": "python train.py", "roles": {"ps": PS, "worker": WORKER}} | fields)
    return plan(job) if isinstance(job, JobFile) else job


def planned(**fields):
    result = found(**fields)
    assert isinstance(result, Plan), result
    return result


def refused(**fields):
    result = found(**fields)
    assert isinstance(result, Refusal), result
    return result


def test_each_role_asks_for_its_own_nodes_and_the_job_for_all_of_them():
    assert planned(succeeds_when="worker").gang == Gang(
        nodes=3,
        nodes_max=7,
        roles=(
            Role(name="ps", cpu_milli=8000, memory_bytes=32 * 10**9),
            Role(name="worker", nodes=2, nodes_max=6, accelerators=(Accelerator(milli=1000),)),
        ),
        succeeds_when="worker",
    )


def test_a_role_runs_its_own_command_or_the_jobs():
    both = planned()
    assert both.command[-1] == "python train.py"
    assert {role: argv[-1] for role, argv in both.commands.items()} == {"ps": "python ps.py"}
    alone = planned(command="", roles={"ps": PS, "worker": WORKER | {"command": ["a", "b"]}})
    assert alone.command == ()
    assert alone.commands["worker"] == ("a", "b")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"command": ""}, "roles.worker.command"),
        ({"nodes": 2}, "nodes"),
        ({"resources": {"gpus": 1}}, "resources"),
        ({"processes_per_node": "per-gpu"}, "processes_per_node"),
        ({"succeeds_when": "wroker"}, "succeeds_when"),
        ({"roles": {}, "succeeds_when": "worker"}, "succeeds_when"),
        ({"roles": {"PS": PS}}, "roles.PS"),
        ({"roles": {"ps": PS | {"nodes": 0}}}, "roles.ps.nodes"),
        ({"roles": {"ps": PS | {"node": 1}}}, "roles.ps.node"),
        ({"roles": {"ps": PS | {"resources": {"gpu": 1}}}}, "roles.ps.resources.gpu"),
        ({"roles": {"ps": PS | {"resources": {"memory": "x"}}}}, "roles.ps.resources.memory"),
        ({"roles": {"ps": PS | {"processes_per_node": "per-gpu"}}}, "roles.ps.processes_per_node"),
        ({"roles": {"a": WORKER | {"nodes": 1000}, "b": WORKER | {"nodes": 100}}}, "roles"),
        ({"roles": {f"r{n}": PS for n in range(17)}}, "roles"),
        ({"roles": {r: {"resources": {"gpus": ["A100"] * 8}} for r in "abc"}}, "roles"),
        ({"roles": {"ps": PS | {"command": "${{ params.lr }}"}}}, "roles.ps.command"),
    ],
)
def test_what_cannot_be_is_refused_by_the_name_of_its_field(fields, field):
    assert refused(**fields).field == field


def test_a_role_that_is_none_is_told_the_nearest():
    assert refused(succeeds_when="wroker").instead == "did you mean worker?"
