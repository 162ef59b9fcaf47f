"""Several platforms in one configuration, and which of them is asked."""

import json

import pytest

from headrace.embedded.contexts import write_context

URL = "http://127.0.0.1:9"


@pytest.fixture
def known(world, headrace, monkeypatch):
    """Two platforms that are known here, the first of them current and there."""
    del headrace  # has set where the configuration is
    write_context("lab", world.url, "a-token-for-tests", project="vision", is_current=True)
    path = write_context("site", URL, "s3cret", project="ads")
    for name in ("HEADRACE_URL", "HEADRACE_TOKEN"):
        monkeypatch.delenv(name)
    return path


async def test_contexts_are_listed_without_their_tokens(headrace, known, world):
    code, out, _ = await headrace("context", "list", "-o", "wide")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["*", "lab", "vision", world.url],
        ["site", "ads", URL],
    ]
    _, out, _ = await headrace("context", "list", "-o", "json")
    assert json.loads(out)[1] == {
        "context": "site",
        "current": False,
        "url": URL,
        "project": "ads",
    }
    assert "s3cret" in known.read_text()


async def test_the_one_that_is_used_is_asked_from_then_on(headrace, known):
    known.write_text(known.read_text() + "# mine\n")
    assert (await headrace("whoami"))[0] == 0
    code, out, err = await headrace("context", "use", "site")
    assert (code, out, err) == (0, f"context site   {URL}\n", "")
    assert (await headrace("whoami"))[0] == 122
    await headrace("context", "use", "lab")
    assert (await headrace("whoami"))[0] == 0
    assert known.read_text().count("current =") == 1
    assert known.read_text().endswith("# mine\n")


async def test_one_command_may_ask_another(headrace, known):
    assert (await headrace("whoami", HEADRACE_CONTEXT="site"))[0] == 122
    code, _, err = await headrace("whoami", HEADRACE_CONTEXT="nowhere")
    assert code == 1
    assert err.startswith("headrace: no context is called nowhere; there are: lab, site (")


async def test_it_is_said_when_the_environment_wins(headrace, known):
    code, _, err = await headrace("context", "use", "site", HEADRACE_URL=URL)
    assert (code, err) == (0, "headrace context: HEADRACE_URL is set and wins over it\n")


async def test_what_is_forgotten_leaves_the_others_as_they_are(headrace, known):
    code, out, _ = await headrace("context", "delete", "site")
    assert (code, out.split(" from ")[0]) == (0, "context site deleted")
    assert "s3cret" not in known.read_text()
    assert (await headrace("whoami"))[0] == 0
    code, _, err = await headrace("context", "delete", "site")
    assert (code, err.split(";")[0]) == (1, "headrace: no context is called site")
