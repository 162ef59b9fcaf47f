"""Admission's doors, over the real runtime."""

import base64
import time

import msgspec
import nkeys
import pytest

from headrace.bus.credentials import new_user_seed, public_key, sign
from headrace.client.model import publisher_text
from headrace.events.access import ProjectErased, ProjectKeysDropped, SecretSet
from headrace.events.jobs import JobAdmitted, JobFinished, JobRefused, JobRequested
from headrace.store.interface import Unavailable

from .conftest import configured, sealed

SEED = nkeys.encode_seed(b"u" * 32, nkeys.PREFIX_BYTE_USER).decode()


def user_key():
    return public_key(SEED)


def registered(name="etl", project="vision", seed=SEED, off_s=0, **changes):
    at_s = int(time.time()) + off_s
    signature = sign(seed, publisher_text(project, name, at_s))
    return {"name": name, "public_key": user_key(), "at_s": at_s, "signature": signature} | changes


async def test_a_submitted_job_is_admitted_and_its_launch_sealed(platform):
    env = {"CANARY": "cb1f"}
    answer = await platform.submit(name="digits", env=env, workdir="/srv", setup=["make"])
    assert answer["accepted"]
    assert answer["job"].startswith("digits-")
    (requested,) = platform.events(JobRequested)
    (admitted,) = platform.events(JobAdmitted)
    assert (requested.job, requested.user) == (admitted.job, "ada") == (answer["job"], "ada")
    launch = await platform.opened(requested)
    assert launch.command == ("/bin/bash", "-e", "-o", "pipefail", "-c", "true")
    assert (launch.env, launch.workdir, launch.setup) == (env, "/srv", ("make",))
    assert b"cb1f" not in b"".join(stored.data + stored.header for stored in platform.log.events)


async def test_a_project_made_a_moment_ago_takes_jobs(platform):
    await platform.append(configured("ads"))
    answer = await platform.submit("ads")
    assert answer["accepted"], answer


async def test_a_project_that_does_not_exist_is_refused_and_no_key_is_made_for_it(platform):
    await platform.folded()
    answer = await platform.submit("visoin")
    assert answer["message"].startswith("refused: project = visoin — does not exist")
    assert answer["position"] > 0
    assert len(platform.events(JobRefused)) == 1
    assert await platform.store.project_key("visoin") is None


async def test_the_doors_project_is_the_jobs_project(platform):
    assert (await platform.submit(project="vision"))["accepted"]
    body = {"command": "true", "project": "ads"}
    answer = await platform.ask("job.submit", body)
    assert answer["message"] == "refused: project = ads — this door is for project vision"


async def test_the_same_key_gets_the_same_answer_and_one_job(platform):
    first = await platform.submit(key="once", name="a")
    again = await platform.submit(key="once", name="a")
    assert first == again
    assert len(platform.events(JobRequested)) == 1
    other = await platform.submit(key="once", name="b")
    assert not other["accepted"]
    assert other["message"].endswith("for a different job (differs in: name)")


FIRST = {"command": ["a"], "env": {"DATE": "1", "SAME": "x"}, "resources": {"gpus": 1}}


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"command": ["b"], "env": {"DATE": "2", "SAME": "x"}}, "command, env.DATE"),
        ({"env": {"DATE": "1"}}, "env.SAME"),
        ({"resources": {"gpus": 2, "cpu": 4}}, "resources.gpus, resources.cpu"),
        ({"nodes": "1..2", "priority": "high"}, "priority, nodes"),
        ({"array": "0..3"}, "array or sweep"),
    ],
)
async def test_a_used_key_says_in_which_fields_the_jobs_differ(platform, changed, names):
    await platform.submit(key="once", **FIRST)
    other = await platform.submit(key="once", **{**FIRST, **changed})
    (first,) = platform.events(JobRequested)
    where = next(e.position for e in platform.log.events if e.type == "job.requested.v1")
    said = f"was used at position {where} for a different job (differs in: {names})"
    assert other["message"] == f"refused: idempotency key once — {said}"
    assert first.job.startswith("j")


async def test_what_was_erased_is_not_compared(platform):
    await platform.submit(key="once", **FIRST)
    await platform.store.drop_project_keys("vision")
    await platform.stop()
    await platform.start()
    other = await platform.submit(key="once", **{**FIRST, "command": ["b"]})
    assert other["message"].endswith("for a different request")


async def test_a_sweep_is_drawn_once_and_its_seed_draws_it_again(platform):
    sweep = {
        "method": "random", "trials": 4, "seed": 7, "parallel": 2,
        "params": {"lr": {"log_uniform": ["1e-5", "1e-1"]}, "depth": [2, 4, 8], "p": {"uniform": [0, 1]}},
    }  # fmt: skip
    for _ in range(2):
        answer = await platform.submit(name="s", command="x ${{ params.lr }}", sweep=sweep)
        assert answer["accepted"], answer
    one, other = platform.events(JobRequested)
    assert one.trials == other.trials
    assert len(one.trials) == 4
    assert len({trial["lr"] for trial in one.trials}) == 4
    assert all(1e-5 <= float(trial["lr"]) <= 1e-1 for trial in one.trials)
    await platform.until(lambda: len(platform.events(JobAdmitted)) == 10)


async def test_a_sweep_without_a_seed_is_drawn_differently_each_time(platform):
    sweep = {"method": "random", "trials": 8, "params": {"lr": {"uniform": [0, 1]}}}
    for _ in range(2):
        await platform.submit(sweep=sweep)
    one, other = platform.events(JobRequested)
    assert one.trials != other.trials


async def test_a_job_is_cancelled_by_any_unambiguous_beginning_of_its_id(platform):
    other = (await platform.submit(name="train"))["job"]
    job = (await platform.submit(name="train"))["job"]
    said = (await platform.ask("job.cancel", {"job": "trai"}))["message"]
    assert said.startswith("refused: job = trai — is short for 2 jobs")
    assert (await platform.ask("job.cancel", {"job": "train"}))["job"] == job
    answer = await platform.ask("job.cancel", {"job": job})
    assert (answer["accepted"], answer["job"]) == (True, job)
    await platform.append(JobFinished(job=job, project="vision", outcome="cancelled"))
    await platform.folded()
    assert (await platform.ask("job.cancel", {"job": "train"}))["job"] == other
    said = (await platform.ask("job.cancel", {"job": job}))["message"]
    assert said == f"refused: job = {job} — has already ended: cancelled"


@pytest.mark.parametrize("verb", ["job.cancel", "job.pause", "job.resume", "job.enter"])
async def test_nobody_else_writes_into_the_stream_of_a_job(platform, verb):
    job = (await platform.submit(name="train"))["job"]
    before = len(platform.log.events)
    body = {"job": job} | ({"way": "exec"} if verb == "job.enter" else {})
    said = (await platform.ask(verb, body, "ads"))["message"]
    assert said == f"refused: job = {job} — is not a job of project ads"
    assert not [e for e in platform.log.events[before:] if e.stream == f"job/{job}"]


async def test_a_secret_is_kept_in_the_vault_and_never_in_the_log(platform):
    await platform.folded()
    answer = await platform.ask("secret.set", {"name": "A", "sealed": sealed()})
    assert (answer["accepted"], answer["name"]) == (True, "A")
    (event,) = platform.events(SecretSet)
    assert await platform.store.secret("vision", "A", event.version) == b"sealed value"
    assert b"sealed value" not in b"".join(stored.data for stored in platform.log.events)
    assert (await platform.submit(secrets=["A"]))["accepted"]


async def test_a_secret_of_an_unknown_project_is_kept_nowhere(platform):
    await platform.folded()
    answer = await platform.ask("secret.set", {"name": "A", "sealed": sealed()}, "nobody")
    assert answer["message"].startswith("refused: project = nobody — does not exist")


async def test_a_publisher_gets_a_credential_for_its_project_alone(platform):
    body = registered()
    await platform.folded()
    answer = await platform.ask("publisher.create", body)
    claims = answer["jwt"].split(".")[1]
    decoded = msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert decoded["sub"] == user_key()
    allowed = decoded["nats"]["pub"]["allow"]
    assert allowed == ["headrace.request.vision.etl.job.*", "headrace.post.vision.etl.job.*"]


async def test_erasing_a_project_makes_what_it_ran_unreadable_and_leaves_the_rest(platform):
    await platform.append(configured("ads"))
    erased = (await platform.submit("vision"))["job"]
    await platform.submit("ads")
    await platform.append(JobFinished(job=erased, project="vision", outcome="succeeded"))
    await platform.folded()
    assert (await platform.ask("project.erase", {}))["accepted"]
    await platform.until(lambda: platform.events(ProjectKeysDropped))
    of_vision, of_ads = platform.events(JobRequested)
    assert await platform.opened(of_vision) is None
    assert await platform.opened(of_ads) is not None


async def test_an_erased_projects_new_jobs_survive_a_restart(platform):
    await platform.submit()
    job = platform.events(JobRequested)[0].job
    await platform.append(JobFinished(job=job, project="vision", outcome="succeeded"))
    await platform.folded()
    await platform.ask("project.erase", {})
    await platform.until(lambda: platform.events(ProjectKeysDropped))
    await platform.folded()
    assert (await platform.submit())["accepted"]
    await platform.stop()
    await platform.start()
    assert len(platform.events(ProjectKeysDropped)) == 1
    assert await platform.opened(platform.events(JobRequested)[1]) is not None


async def test_keys_that_a_crash_left_are_dropped_by_the_next_leader(platform):
    await platform.submit()
    await platform.stop()
    job = platform.events(JobRequested)[0].job
    finished = JobFinished(job=job, project="vision", outcome="succeeded")
    await platform.append(finished, ProjectErased(project="vision"))
    await platform.start()
    await platform.until(lambda: platform.events(ProjectKeysDropped))
    assert await platform.opened(platform.events(JobRequested)[0]) is None


async def test_a_vault_that_cannot_be_reached_is_tried_again(platform):
    await platform.submit()
    job = platform.events(JobRequested)[0].job
    await platform.append(JobFinished(job=job, project="vision", outcome="succeeded"))
    await platform.folded()
    refusals = iter([True, True])

    async def fault(operation):
        if operation == "drop_project_keys.before" and next(refusals, False):
            raise Unavailable("no vault")

    platform.host.vault._fault = fault
    assert (await platform.ask("project.erase", {}))["accepted"]
    await platform.until(lambda: platform.events(ProjectKeysDropped))
    assert next(refusals, None) is None
    assert await platform.opened(platform.events(JobRequested)[0]) is None


async def test_ids_of_two_terms_never_meet(platform):
    jobs = [(await platform.submit(name="a"))["job"] for _ in range(3)]
    await platform.stop()
    await platform.start()
    jobs += [(await platform.submit(name="a"))["job"] for _ in range(3)]
    assert len(set(jobs)) == 6


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("job.submit", b""),
        ("job.submit", b"\xff"),
        ("job.submit", {"comand": "x"}),
        ("job.submit", {"command": "x", "name": "a.b"}),
        ("job.submit", {"command": "x", "sweep": {"method": "list", "params": [{"a": "é" * 1000}] * 150}}),
        ("job.cancel", b"[]"),
        ("job.cancel", {"job": "../../etc"}),
        ("job.cancel", {"job": "a.*.>"}),
        ("job.cancel", {"job": "a", "x": 1}),
        ("secret.set", {"name": "A B", "sealed": sealed()}),
        ("secret.set", {"name": "A", "sealed": "no base64!"}),
        ("secret.set", {"name": "A", "sealed": ""}),
        ("secret.set", {"name": "A", "sealed": sealed(b"x" * 70_000)}),
        ("publisher.create", registered("a.b")),
        ("publisher.create", registered("a", public_key="U" * 56)),
        ("publisher.create", registered("a\n")),
        ("publisher.create", registered(seed=new_user_seed())),
        ("publisher.create", registered(project="ads")),
        ("publisher.create", registered(name="other") | {"name": "etl"}),
        ("publisher.create", registered(off_s=-3600)),
        ("publisher.create", registered(signature="?")),
        ("publisher.create", {"name": "etl", "public_key": user_key()}),
        ("publisher.renew", registered(seed=new_user_seed())),
        ("project.erase", b"{"),
        ("project.forget", {}),
    ],
)  # fmt: skip
async def test_what_cannot_be_understood_is_refused_in_one_line_and_never_recorded(
    platform, verb, body
):
    await platform.folded()
    before = len(platform.log.events)
    answer = await platform.ask(verb, body)
    assert (answer["accepted"], answer["position"]) == (False, 0)
    assert answer["message"].startswith("refused: ")
    assert answer["message"].isprintable()
    assert len(platform.log.events) == before


async def test_a_job_whose_outputs_are_wanted_by_name_is_the_one_of_now(platform):
    first = (await platform.submit(name="etl"))["job"]
    second = (await platform.submit(name="etl"))["job"]
    await platform.submit(name="train", volumes=["job/etl:/in", "job/long-gone-1:/old"])
    await platform.submit(name="train", volumes=[f"job/{first}:/in"], after=[{"key": "no"}])
    named, exact = platform.events(JobRequested)[-2:]
    assert named.inputs == (second, "long-gone-1")
    assert exact.inputs == (first,)
    assert exact.key != named.key != ""
