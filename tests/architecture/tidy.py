"""The style of the house as checks on one file: sizes, names, leftovers, tracebacks."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

FUNCTION_LINES_MAX = 66  # a page, its docstring not counted; what is shorter reads better
MODULE_LINES_MAX = 500  # of one thing; where it is two, it is cut earlier
MODULE_NAMES_BANNED = {"utils", "util", "common", "helpers", "misc", "shared", "stuff"}
LEFTOVERS = ("TODO", "FIXME", "XXX", "HACK")
TRACEBACK_CALLS = {"exception", "print_exc", "format_exc", "print_exception"}


def long_functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each function longer than allowed, with its length in lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = _lines(node)
            if lines > FUNCTION_LINES_MAX:
                yield node.name, lines


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def leftovers(text: str) -> Iterator[tuple[int, str]]:
    """Each comment that puts something off, with its line."""
    if not any(word in text for word in LEFTOVERS):
        return  # taking a text apart takes a while
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and any(word in token.string for word in LEFTOVERS):
            yield token.start[0], token.string


def tracebacks(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each place that would print a stack trace, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            if "traceback" in names:
                yield node.lineno, "import traceback"
        if isinstance(node, ast.Call):
            logger, _, call = ast.unparse(node.func).rpartition(".")
            if call in TRACEBACK_CALLS and "log" in logger.lower():
                yield node.lineno, f"{logger}.{call}()"
            for keyword in node.keywords:
                value = keyword.value
                off = isinstance(value, ast.Constant) and not value.value
                if keyword.arg == "exc_info" and not off:
                    yield node.lineno, "exc_info"
