"""The style of the house, held on every file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.architecture import sources, tidy

# What is longer than allowed, each with its reason. Keep it short.
LONG_FUNCTIONS: dict[str, str] = {}
LONG_MODULES: dict[str, str] = {}


def test_every_module_opens_with_a_docstring() -> None:
    silent = [
        sources.name_of(path)
        for path in sources.production_files()
        if ast.get_docstring(sources.tree_of(path)) is None
    ]

    assert silent == []


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = {
        f"{sources.name_of(path)}:{name}": lines
        for path in sources.all_files()
        for name, lines in tidy.long_functions(sources.tree_of(path))
    }

    assert {name: too_long[name] for name in too_long if name not in LONG_FUNCTIONS} == {}
    assert set(LONG_FUNCTIONS) <= set(too_long), "an exception is not needed any more"


def test_no_module_is_too_long_to_read_at_once() -> None:
    sizes = {
        sources.name_of(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources.all_files()
    }
    too_long = {name: lines for name, lines in sizes.items() if lines > tidy.MODULE_LINES_MAX}

    assert {name: too_long[name] for name in too_long if name not in LONG_MODULES} == {}
    assert set(LONG_MODULES) <= set(too_long), "an exception is not needed any more"


def test_no_module_has_a_name_that_says_nothing() -> None:
    nameless = [
        sources.name_of(path)
        for path in sources.all_files()
        if path.stem in tidy.MODULE_NAMES_BANNED or path.parent.name in tidy.MODULE_NAMES_BANNED
    ]

    assert nameless == []


def test_nothing_is_put_off_in_a_comment() -> None:
    found = [
        f"{sources.name_of(path)}:{line} {comment}"
        for path in sources.all_files()
        for line, comment in tidy.leftovers(path.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_nobody_prints_a_stack_trace() -> None:
    found = [
        f"{sources.name_of(path)}:{line} {what}"
        for path in sources.production_files()
        for line, what in tidy.tracebacks(sources.tree_of(path))
    ]

    assert found == []


def test_the_namespace_has_no_module_of_its_own() -> None:
    roots = [sources.ROOT / "libs" / "headrace", sources.SERVICES]

    assert [root for root in roots if (root / "__init__.py").exists()] == []


@pytest.mark.parametrize(
    ("source", "finds"),
    [
        ("def f():\n" + "    x = 1\n" * 66, [("f", 67)]),
        ('def f():\n    """Long\n    words."""\n' + "    x = 1\n" * 39, []),
    ],
)
def test_a_docstring_does_not_count_as_length(source: str, finds: list[tuple[str, int]]) -> None:
    assert list(tidy.long_functions(ast.parse(source))) == finds


@pytest.mark.parametrize(
    "source",
    ["import traceback", "from traceback import format_exc", "_LOG.exception('x')",
     "log.error('x', exc_info=True)"],
)  # fmt: skip
def test_each_way_to_print_a_stack_trace_is_found(source: str) -> None:
    assert list(tidy.tracebacks(ast.parse(source))) != []


def test_files_are_found() -> None:
    found: list[Path] = sources.production_files()

    assert sources.ROOT / "libs/headrace/events/base.py" in found
