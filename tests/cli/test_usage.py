"""What is typed wrong, and how little is loaded for what is typed right."""

import argparse
import importlib
import shlex
import subprocess
import sys

import pytest

from headrace.cli import output
from headrace.cli.app import NOT_YET, VERBS, main
from headrace.cli.arguments import FORMATS, Parser
from headrace.cli.examples import EXAMPLES
from headrace.cli.exits import printable


def run(capsys, *words):
    try:
        code = main(words)
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_an_unknown_verb_is_told_the_nearest_one(capsys):
    assert run(capsys, "sumbit") == (
        2,
        "",
        "headrace: unknown verb sumbit; did you mean submit?\n",
    )


@pytest.mark.parametrize("verb", sorted(NOT_YET))
def test_a_verb_that_is_not_built_says_so(capsys, verb):
    assert run(capsys, verb) == (2, "", f"headrace {verb}: not yet\n")


@pytest.mark.parametrize("words", [("ps", "--at", "-2m"), ("describe", "x", "--at=17")])
def test_an_option_that_is_not_built_says_so(capsys, words):
    code, _, err = run(capsys, *words)
    assert (code, "not yet (see headrace" in err) == (2, True)


def test_an_unknown_option_is_told_the_nearest_one(capsys):
    code, _, err = run(capsys, "ps", "--stat", "live")
    assert code == 2
    assert err.startswith("headrace ps: unknown option --stat; did you mean --state?")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("submit",),
        ("cancel",),
        ("logs",),
        ("describe",),
        ("node", "explode"),
        ("events", "--since", "yesterday"),
        ("ps", "-o", "xml"),
        ("apply",),
        ("secret", "get", "X"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(capsys, words):
    code, out, err = run(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(capsys, verb):
    code, out, _ = run(capsys, verb, "--help")
    assert code == 0
    assert VERBS[verb].about in " ".join(out.split())


def test_the_overview_names_every_verb(capsys):
    _, out, _ = run(capsys)
    assert all(f"  {verb} " in out for verb in VERBS)


def test_a_persons_verbs_load_no_driver_and_nothing_heavy():
    heavy = [
        "asyncio",
        "asyncpg",
        "nats",
        "litestar",
        "uvicorn",
        "yaml",
        "cryptography",
        "opentelemetry",
        "headrace.documents",
    ]
    script = (
        "import sys\n"
        "import headrace.cli.reading, headrace.cli.following, headrace.cli.describing\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize(
    ("amount_us", "text"),
    [
        (0, "0s"),
        (20_000, "20ms"),
        (1_400_000, "1.4s"),
        (41_000_000, "41s"),
        (59_600_000, "1m00s"),
        (750_000_000, "12m30s"),
        (11_100_000_000, "3h05m"),
        (187_200_000_000, "2d04h"),
    ],
)
def test_durations_are_short(amount_us, text):
    assert output.duration(amount_us) == text


@pytest.mark.parametrize(("milli", "text"), [(2000, "2"), (250, "0.25"), (0, "0"), (-500, "-0.5")])
def test_shares_of_gpus_are_decimals(milli, text):
    assert output.gpus(milli) == text


def test_control_characters_are_shown_as_escapes():
    assert printable("a\x1b[2J\n\u2028b") == "a\\x1b[2J\\n\\u2028b"


def test_a_table_fits_the_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    output.table(("JOB", "WHY"), [["hello-a", "x" * 99]])
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) == 30


def test_a_pipe_gets_everything_and_no_colour(capsys):
    output.table(("JOB", "WHY"), [["running", "x" * 99]])
    out = capsys.readouterr().out
    assert "x" * 99 in out
    assert "\x1b" not in out


def test_every_verb_has_examples_that_can_be_typed():
    assert list(EXAMPLES) == list(VERBS)
    for verb, examples in EXAMPLES.items():
        for example in examples:
            words = shlex.split(example.split(" < ")[0].replace("source <(", "").rstrip(")"))
            assert words[:2] == ["headrace", verb]
            if not VERBS[verb].is_foreign:
                parsed(verb, words[2:])


def parsed(verb, words):
    parser = Parser(prog=verb, allow_abbrev=False)
    module = importlib.import_module(f"headrace.cli.{VERBS[verb].module}")
    getattr(module, f"{verb.replace('-', '_')}_options")(parser)
    before_pipe = words[: words.index("|")] if "|" in words else words
    parser.keywords(before_pipe)


READING = (
    "ps", "describe", "why", "logs", "events", "projects", "usage", "whoami", "verify", "status",
    "doctor", "rebuild", "node list", "node describe", "node tokens", "pool list", "volume list",
    "secret list", "publisher list", "webhook list", "context list", "user list", "role list",
    "token list",
)  # fmt: skip


@pytest.mark.parametrize("words", READING)
def test_every_reading_command_has_all_forms(words):
    name, *action = words.split()
    parser = Parser(prog="headrace")
    module = importlib.import_module(f"headrace.cli.{VERBS[name].module}")
    getattr(module, f"{name}_options")(parser)
    for each in action:
        (actions,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        parser = actions.choices[each]
    (output,) = (a for a in parser._actions if "-o" in a.option_strings)
    assert output.choices == FORMATS


async def test_a_locale_without_the_letters_is_no_failure(start):
    code, out, err = await (await start("--help", PYTHONIOENCODING="ascii")).end()
    assert (code, err) == (0, "")
    assert out.startswith("usage: headrace VERB ?")


async def test_help_tells_exit_codes_and_the_scopes_of_tokens(headrace):
    _, out, _ = await headrace("--help")
    assert "  120  refused" in out
    assert "  122  the platform is not reached" in out
    _, out, _ = await headrace("token", "create", "--help")
    assert "  job         read submit cancel pause resume enter" in out
    assert "  logs        read" in out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("job.resources.gpus", "resources.gpus\n  2, 0.5 (a share), H100:8"),
        ("retry", "retry\n  After which ends"),
        ("roles.worker.nodes", "roles.NAME.nodes\n  How many of this kind"),
        ("", "  type "),
    ],
)
def test_explain_tells_of_a_field_and_of_those_below_it(capsys, word, said):
    code, out, _ = run(capsys, "explain", word)
    assert (code, out.startswith(said)) == (0, True)
    assert ("retry.attempts" in out) is (word == "retry")


def test_explain_of_what_is_no_field_tells_the_nearest(capsys):
    code, _, err = run(capsys, "explain", "job.resorces.gpus")
    assert code == 2
    assert err.endswith("is no field of a job file; did you mean resources.gpus?\n")
