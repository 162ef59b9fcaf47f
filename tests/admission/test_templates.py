"""Templates: applied, deleted, and the jobs that come of them."""

import pytest

from headrace.events.jobs import JobAdmitted, JobRequested
from headrace.events.queues import QueueDeleted
from headrace.events.templates import TemplateConfigured, TemplateDeleted

from .conftest import configured

DDP = {"nodes": 2, "resources": {"gpus": 1}, "env": {"A": "1"}, "command": ["train"]}


async def applied(platform, job=DDP, name="ddp", project="vision", **fields):
    document = {"type": "template", "name": name, "job": job, **fields}
    if project:
        document["project"] = project
    return await platform.ask("template.apply", document, project or "fleet")


async def test_a_job_has_all_that_its_template_says_and_says_where_it_is_from(platform):
    answer = await applied(platform)
    assert (answer["change"], answer["name"]) == ("created", "ddp")
    body = {"template": "ddp", "env": {"B": "2"}, "resources": {"cpu": 2}}
    answer = await platform.ask("job.submit", body)
    assert answer["job"].startswith("ddp-")
    (requested,), (admitted,) = platform.events(JobRequested), platform.events(JobAdmitted)
    at = next(n for n, s in enumerate(platform.log.events, 1) if s.type.startswith("template.con"))
    for event in (requested, admitted):
        assert (event.template, event.template_at) == ("ddp", at)
        assert (event.gang.nodes, event.gang.cpu_milli) == (2, 2000)
        assert event.gang.accelerators[0].milli == 1000
    assert requested.template_fields == ("nodes", "resources.gpus", "env.A", "command")
    launch = await platform.opened(requested)
    assert (launch.command, launch.env) == (("train",), {"A": "1", "B": "2"})


async def test_a_projects_own_template_comes_before_everybodys(platform):
    await platform.append(configured("ads"))
    await applied(platform, {"nodes": 3}, project="")
    await applied(platform, {"nodes": 2})
    for project, nodes in (("vision", 2), ("ads", 3)):
        await platform.submit(project, template="ddp")
        assert platform.events(JobAdmitted)[-1].gang.nodes == nodes


async def test_the_same_key_is_the_same_job_though_the_template_has_changed(platform):
    await applied(platform)
    first = await platform.submit(key="once", template="ddp")
    await applied(platform, {"nodes": 5})
    assert await platform.submit(key="once", template="ddp") == first
    assert len(platform.events(JobAdmitted)) == 1


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"template": "dpp"}, "refused: template = dpp — no such template; did you mean ddp?"),
        (
            {"template": "ddp", "priority": "hgh"},
            "refused: priority = hgh — is not one of the words known here (in the job file); did",
        ),
        ({"template": "ddp", "nods": 2}, "refused: nods — unknown field (in the job file); did"),
        (
            {"template": "ddp", "pools": []},
            "refused: volumes = nix — no such volume (in template ddp); there is none yet",
        ),
        ({"template": "ddp", "volumes": ["no:/x"]}, "refused: volumes = no — no such volume; the"),
        ({"template": 7}, "refused: template = 7 — expected text"),
    ],
)
async def test_a_refusal_says_whether_the_template_or_the_job_file_is_wrong(platform, body, line):
    await applied(platform, {"volumes": ["nix:/x"], "command": "true"})
    assert (await platform.ask("job.submit", body))["message"].startswith(line)


async def test_it_is_applied_through_the_door_of_whose_it_is(platform):
    document = {"type": "template", "name": "ddp", "project": "ads", "job": DDP}
    answer = await platform.ask("template.apply", document, "vision")
    assert answer["message"] == "refused: project = ads — this door is for project vision"
    assert "does not exist" in (await applied(platform, project="visoin"))["message"]


async def test_one_that_is_applied_again_says_what_became_of_it(platform):
    changes = [(await applied(platform, job))["change"] for job in (DDP, DDP, {"nodes": 1})]
    assert changes == ["created", "unchanged", "updated"]


async def test_one_that_was_deleted_can_be_named_no_more_and_its_jobs_go_on(platform):
    await applied(platform)
    await platform.submit(template="ddp")
    assert (await platform.ask("template.delete", {"name": "ddp"}))["accepted"]
    assert platform.events(TemplateDeleted) == [TemplateDeleted(name="ddp", project="vision")]
    assert "no such template" in (await platform.submit(template="ddp"))["message"]
    refused = await platform.ask("template.delete", {"name": "ddp"})
    assert refused["message"].startswith("refused: template = ddp — no such template of project")


async def test_who_looks_for_it_in_the_wrong_place_is_told_the_right_one(platform):
    await applied(platform)
    answer = await platform.ask("template.delete", {"name": "ddp"}, "fleet")
    assert answer["message"].endswith("project vision has one: --project vision")
    await applied(platform, name="all", project="")
    answer = await platform.ask("template.delete", {"name": "all"}, "vision")
    assert answer["message"].endswith("it is everybody's: leave out --project")


async def test_a_projects_templates_end_with_it(platform):
    await applied(platform)
    await platform.append(QueueDeleted(name="vision", queue_kind="project"), configured("vision"))
    await platform.folded()
    assert "no such template" in (await platform.submit(template="ddp"))["message"]
    assert len(platform.events(TemplateConfigured)) == 1
