"""README's page about real machines: every command in it is one that the command line takes."""

import importlib
import re
import shlex
import socket
from pathlib import Path

import pytest

from headrace.cli import joining
from headrace.cli.app import VERBS
from headrace.cli.arguments import Parser
from headrace.trust import join_token

README = (Path(__file__).parents[2] / "README.md").read_text()
PAGE = README.split("## Real machines")[1].split("\n## ")[0]
COMMANDS = re.findall(r"^\w+\$ +headrace (.*?)(?:  +#.*)?$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_readme_shows_is_understood(command):
    verb, *words = shlex.split(command)
    parser = Parser(prog=f"headrace {verb}", allow_abbrev=False)
    getattr(importlib.import_module(f"headrace.cli.{VERBS[verb].module}"), f"{verb}_options")(
        parser
    )
    assert parser.keywords(words)


def test_readme_shows_every_step():
    assert len(COMMANDS) == 10


@pytest.mark.parametrize(
    ("host", "node"),
    [
        ("gpubox-1.example.org", "gpubox-1"),
        ("GPU_Box 7", "gpu-box-7"),
        ("-x-", "x"),
        ("a" * 80, "a" * 63),
    ],
)
def test_a_node_is_called_after_its_host(host, node):
    assert joining.node_name(host) == node
    assert joining.is_name(node)


@pytest.mark.parametrize("text", ["", "hrj_", "hrj_12345678_short", "x" * 200, "hrj_1_2.3"])
def test_what_is_no_join_token_is_not_repeated(text):
    with pytest.raises(ValueError, match=r"^this is no join token") as refused:
        join_token.parse(text)
    assert not text or text == "hrj_" or text not in str(refused.value)


def test_a_join_line_is_for_other_machines():
    name = socket.gethostname()
    assert joining.seen_from_outside("https://127.0.0.1:7400") == f"https://{name}:7400"
    assert joining.seen_from_outside("https://head:7400") == "https://head:7400"
    assert joining.seen_from_outside("http://127.0.0.1:7400") == "http://127.0.0.1:7400"


def test_a_join_token_is_read_as_it_was_shown():
    token = join_token.new()._replace(pin="p" * 43)
    assert join_token.parse(f" {token.text()}\n") == token
    assert token.secret not in token.digest


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["node", "join", "https://head", "--token", "typo"], "this is no join token"),
        (["node", "join", "https://head"], "--token TOKEN, --token - (from standard input)"),
        (
            ["node", "join", "https://h", "--token", join_token.new().text(), "--name", "N_1"],
            "refused: --name = N_1 — has 1 to 63 of a-z 0-9",
        ),
        (["node", "token", "--expires", "soon"], "'soon' is no duration"),
        (["node", "drain", "n1", "--deadline", "soon"], "'soon' is no duration"),
    ],
)
def test_what_is_wrong_on_the_line_is_said_in_one(words, line, monkeypatch, capsys):
    monkeypatch.delenv("HEADRACE_JOIN_TOKEN", raising=False)
    from headrace.cli.app import main

    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr().err
    assert code in (2, 120)
    assert line in said
    assert said.count("\n") == 1
