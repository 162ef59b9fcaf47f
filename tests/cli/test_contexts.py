"""Several platforms in one configuration, and which of them is asked."""

import json
import shutil

import pytest

from headrace.cli.data_folder import data_dir_of
from headrace.embedded import settings
from headrace.embedded.contexts import write_context
from headrace.embedded.layout import Layout

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


@pytest.fixture
def kept_here(known, tmp_path):
    """The data folders of two platforms, of which the first is the context in force."""
    del known
    folders = [Layout(tmp_path / name) for name in ("one", "other")]
    for layout in folders:
        layout.create()
        settings.settle(layout, settings.Wanted())
        name = layout.data_dir.name
        fields = {"data_dir": str(layout.data_dir), "is_current": name == "one"}
        write_context(name, f"http://{name}", "t", **fields)
    return [layout.data_dir for layout in folders]


def test_verbs_about_this_machine_take_the_folder_of_the_context_in_force(
    kept_here, tmp_path, monkeypatch
):
    one, other = kept_here
    assert data_dir_of(None) == one
    assert data_dir_of(other) == other, "what is named comes first"
    monkeypatch.setenv("HEADRACE_CONTEXT", "other")
    assert data_dir_of(None) == other
    monkeypatch.setenv("HEADRACE_URL", "http://one")
    assert data_dir_of(None) == one
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADRACE_URL", "http://elsewhere")
    assert data_dir_of(None) == tmp_path / "home/headrace"
    monkeypatch.delenv("HEADRACE_URL")
    shutil.rmtree(other)
    assert data_dir_of(None) == tmp_path / "home/headrace", "what is gone is nobody's folder"


async def test_down_and_verify_are_about_the_context_in_force(kept_here, headrace):
    one, other = kept_here
    assert await headrace("down") == (0, f"Headrace is down    data {one}\n", "")
    code, out, _ = await headrace("down", "--data-dir", str(other))
    assert (code, out) == (0, f"Headrace is down    data {other}\n")
    _, out, _ = await headrace("status")
    assert f"data {one}" in out


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
