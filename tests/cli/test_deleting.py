"""Documents that are deleted, and templates as people see them."""

import json
import os
import pty

import pytest
from tests.cli.program import accept, in_log
from tests.gateway.histories import requested
from tests.gateway.people import configured

from headrace.events.access import SecretSet
from headrace.events.queues import QueueDeleted
from headrace.events.templates import Template, TemplateConfigured, TemplateDeleted

DDP = '{"nodes":2,"resources":{"gpus":8}}'


def template(name="ddp", project="vision", job=DDP, description="two nodes"):
    made = Template(name=name, project=project, job=job, description=description)
    return TemplateConfigured(name=name, project=project, template=made, change="created")


@pytest.mark.parametrize(
    ("words", "asked", "said"),
    [
        (
            ("project", "ads", "--yes"),
            ("queue.delete", {"name": "ads", "kind": "project"}),
            "its history",
        ),
        (("department", "x"), ("queue.delete", {"name": "x", "kind": "department"}), ""),
        (("pool", "train"), ("pool.delete", {"name": "train"}), ""),
        (("volume", "data"), ("volume.delete", {"name": "data"}), "the folder itself"),
        (
            ("template", "ddp", "-p", "vision"),
            ("template.delete", {"name": "ddp"}),
            "jobs that came",
        ),
        (("scheduling",), ("scheduling.delete", {}), "as the platform has it"),
        (("node", "n3"), ("node.change", {"node": "n3", "change": "delete"}), ""),
        (("webhook", "w", "-p", "ads"), ("webhook.delete", {"name": "w"}), ""),
    ],
)
async def test_each_kind_is_deleted_by_whoever_owns_it(world, headrace, words, asked, said):
    verb, body = asked
    await accept(world, verb)
    code, out, _ = await headrace("delete", *words)
    assert code == 0
    named = " ".join(word for word in words[:2] if not word.startswith("-"))
    assert out.startswith(f"{named} deleted")
    assert said in out
    assert json.loads(world.asked[0].data) == body
    *_, project, noun, _verb = world.asked[0].subject.split(".")
    assert (project, noun) == (words[3] if "-p" in words else "fleet", verb.partition(".")[0])


async def test_a_node_is_deleted_with_yes_as_all_else_is(world, headrace):
    await accept(world, "node.change")
    assert (await headrace("node", "delete", "n3", "--yes"))[:2] == (0, "n3 deleted\n")
    assert json.loads(world.asked[0].data) == {"node": "n3", "change": "delete"}


async def test_a_project_is_deleted_when_it_is_known_what_goes_with_it(
    world, headrace, monkeypatch
):
    await accept(world, "queue.delete")
    sealed = SecretSet(project="ads", name="WANDB_API_KEY", version="1")
    await in_log(world, configured("ads"), template("ddp", project="ads"), sealed)
    said = "deletes project ads with\n  1 secret: WANDB_API_KEY\n  1 template: ddp\n"
    code, out, err = await headrace("delete", "project", "ads")
    assert (code, out, world.asked) == (1, "", [])
    assert err == said + "headrace delete: nothing was done; say --yes to do it\n"
    for answer, done in ((b"n\n", 1), (b"\n", 1), (b"y\n", 0)):
        terminal, ours = pty.openpty()
        os.write(terminal, answer)
        with monkeypatch.context() as patched, os.fdopen(ours) as stdin:
            patched.setattr("sys.stdin", stdin)
            code, _, err = await headrace("delete", "project", "ads")
        os.close(terminal)
        assert (code, len(world.asked)) == (done, int(not done))
        assert "go on? [y/N]" in err
    code, _, err = await headrace("delete", "project", "ads", "--yes")
    assert (code, err) == (0, said), "said all the same"


async def test_a_refusal_is_one_line_and_the_exit_code_says_so(world, headrace):
    refusal = {"field": "pool", "rule": "1 node is in it", "value": "train"}
    line = "refused: pool = train — 1 node is in it"
    await accept(world, "pool.delete", accepted=False, message=line, refusal=refusal)
    assert await headrace("delete", "pool", "train") == (120, "", f"{line}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pol", "train"), "'pol' is not known here; did you mean pool?"),
        (("pool",), "which pool? (headrace delete pool NAME)"),
        (("scheduling", "x"), "it has no name"),
    ],
)
async def test_what_cannot_be_meant_is_bad_usage(headrace, words, said):
    code, _, err = await headrace("delete", *words)
    assert code == 2
    assert said in err


async def test_an_answer_can_be_had_as_json(world, headrace):
    await accept(world, "pool.delete")
    _, out, _ = await headrace("delete", "pool", "train", "-o", "json")
    assert json.loads(out)["accepted"]


async def test_a_deleted_project_is_listed_no_more_until_it_is_made_anew(world, headrace):
    await in_log(world, configured("ads"), QueueDeleted(name="ads", queue_kind="project"))
    assert "ads" not in (await headrace("projects"))[1]
    await in_log(world, configured("ads"))
    assert "ads" in (await headrace("projects"))[1]


async def test_templates_are_listed_and_one_is_shown_as_its_document(world, headrace):
    await in_log(world, template(), template("all", project=""), template("gone"))
    await in_log(world, TemplateDeleted(name="gone", project="vision"))
    _, out, _ = await headrace("template", "list")
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [
        ["all", "every", "nodes"],
        ["ddp", "vision", "nodes"],
    ]
    code, out, _ = await headrace("template", "show", "ddp", "-p", "vision")
    assert code == 0
    assert out == (
        "# stands at position 1\ntype: template\nname: ddp\nproject: vision\n"
        "description: two nodes\njob:\n  nodes: 2\n  resources:\n    gpus: 8\n"
    )
    _, out, _ = await headrace("template", "show", "ddp", "-p", "vision", "-o", "json")
    assert json.loads(out)["job"] == json.loads(DDP)
    code, _, err = await headrace("template", "show", "dpp", "-p", "vision")
    assert (code, err) == (1, "headrace: no template dpp is known; did you mean ddp?\n")


async def test_run_names_a_template_and_leaves_the_rest_to_it(world, headrace):
    await accept(world, "job.submit", job="ddp-x1y2")
    code, out, _ = await headrace("run", "-d", "--template", "ddp", "-p", "vision", "--gpus", "1")
    assert (code, out) == (0, "ddp-x1y2  submitted  project vision\n")
    assert json.loads(world.asked[0].data) == {
        "project": "vision",
        "template": "ddp",
        "resources": {"gpus": "1"},
    }


async def test_what_the_job_file_says_wrong_is_said_with_its_line_before_it_is_sent(
    world, headrace, tmp_path
):
    (tmp_path / "job.yaml").write_text("template: ddp\nresources: {gpsu: 1}\n")
    code, _, err = await headrace("submit", "job.yaml")
    assert code == 120
    assert err == "refused: resources.gpsu — unknown field; did you mean gpus? (line 2)\n"
    assert world.asked == []


async def test_describe_says_which_template_a_job_came_of(world, headrace):
    await in_log(world, template(), requested("a-1", template="ddp", template_at=1))
    assert "  from    template ddp (position 1)\n" in (await headrace("describe", "a-1"))[1]
