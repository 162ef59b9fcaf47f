"""What `--help` tells: something of every option and argument of every verb."""

import importlib
from argparse import SUPPRESS, _SubParsersAction

import pytest

from headrace.cli.app import VERBS
from headrace.cli.arguments import Parser


def untold(parser, words):
    """The options and arguments of a parser, and of its actions, of which nothing is said."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for name, below in action.choices.items():
                yield from untold(below, f"{words} {name}")
        elif action.help is not SUPPRESS and not action.help:
            yield f"{words} {' '.join(action.option_strings) or action.dest}"


@pytest.mark.parametrize("name", [name for name, verb in VERBS.items() if not verb.is_foreign])
def test_every_option_has_help(name):
    parser = Parser(prog=name, allow_abbrev=False)
    module = importlib.import_module(f"headrace.cli.{VERBS[name].module}")
    getattr(module, f"{name.replace('-', '_')}_options")(parser)
    assert list(untold(parser, name)) == []
    assert parser.format_help()
