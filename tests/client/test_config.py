import pytest

from headrace.client import ClientError
from headrace.client.config import context

KEPT = """
current = "lab"

[contexts.local]
url = "http://127.0.0.1:7400"
token = "local-token"

[contexts.lab]
url = "http://lab:7400"
token = "lab-token"
project = "vision"
"""


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("HEADRACE_URL", "HEADRACE_TOKEN", "HEADRACE_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "headrace" / "config.toml"
    path.parent.mkdir()
    path.write_text(KEPT)
    return path


def test_the_current_context_of_the_file_is_taken():
    assert context()[:3] == ("http://lab:7400", "lab-token", "vision")


def test_the_environment_wins_over_the_file(monkeypatch):
    monkeypatch.setenv("HEADRACE_URL", "http://other:1")
    monkeypatch.setenv("HEADRACE_PROJECT", "ads")
    assert context()[:3] == ("http://other:1", "", "ads")


def test_a_kept_token_goes_to_its_own_platform_alone():
    assert context(url="http://127.0.0.1:7400/").token == "local-token"
    assert context(url="http://lab:7400").token == "lab-token"
    assert context(url="http://lab:7401").token == ""
    assert context(url="http://lab:7401", token="given").token == "given"


def test_an_option_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("HEADRACE_PROJECT", "ads")
    assert context(project="nlp").project == "nlp"


def test_without_a_project_it_is_default(config):
    config.write_text('[contexts.local]\nurl = "http://here:1"\n')
    assert context()[:3] == ("http://here:1", "", "default")


def test_without_any_address_the_file_is_named(config):
    config.unlink()
    with pytest.raises(ClientError, match=r"set HEADRACE_URL.*config\.toml"):
        context()


@pytest.mark.parametrize("text", ["not toml", "contexts = 3\n", "[contexts]\nlocal = 1\n", "\xff"])
def test_a_broken_file_is_named_in_one_line(config, text):
    config.write_bytes(text.encode("latin-1"))
    with pytest.raises(ClientError, match=r"config\.toml") as error:
        context()
    assert "\n" not in str(error.value)
