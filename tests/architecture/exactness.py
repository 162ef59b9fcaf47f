"""Arithmetic and orders that are not the same on every machine, found in a module's syntax tree.

Rule: integers only, and every order total. What `purity` does not ban already is banned here: powers
but of constants, reductions over what may be floats, sorts that are not stable, and whatever takes
an element of a set or a mapping without saying which.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture import purity

MATH_ALLOWED = {"floor", "ceil", "isqrt", "prod"}  # of integers, exactly
MODULES_BANNED = {"cmath", "statistics", "scipy", "decimal"}
NUMPY_REDUCTIONS = {"sum", "prod", "cumsum", "cumprod", "nansum", "nanmean", "trapezoid"}
NUMPY_SORTS = {"sort", "argsort", "lexsort"}
METHODS_BANNED = {"dot", "argpartition", "partition", "mean", "std", "var"}
STABLE = {"stable", "mergesort"}
ARRAYS = {"np", "numpy"}


def inexact(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each place whose result another machine or another order could change, with its line."""
    sets = purity.names_of_sets(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _import(node)
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow):
            yield from _power(node)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node)
        elif isinstance(node, ast.Call):
            yield from _call(node, sets)


def _import(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str]]:
    modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for module in modules:
        top = module.partition(".")[0]
        if top in MODULES_BANNED:
            yield node.lineno, f"import {top}"
        if isinstance(node, ast.ImportFrom) and top in {"math", *ARRAYS}:
            yield node.lineno, f"from {top}"  # its functions would go by names of their own
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname and alias.name in {"math", "numpy"} and alias.asname not in ARRAYS:
                yield node.lineno, f"{alias.name} as {alias.asname}"


def _power(node: ast.BinOp | ast.AugAssign) -> Iterator[tuple[int, str]]:
    exponent = node.right if isinstance(node, ast.BinOp) else node.value
    if not (isinstance(exponent, ast.Constant) and isinstance(exponent.value, int)):
        yield node.lineno, "power"  # a negative constant is an operation on a constant


def _attribute(node: ast.Attribute) -> Iterator[tuple[int, str]]:
    module = node.value.id if isinstance(node.value, ast.Name) else ""
    if module == "math" and node.attr not in MATH_ALLOWED:
        yield node.lineno, f"math.{node.attr}"
    if module in ARRAYS and node.attr in NUMPY_REDUCTIONS:
        yield node.lineno, f"numpy.{node.attr}"
    if node.attr == "popitem":
        yield node.lineno, "popitem"


def _call(node: ast.Call, sets: set[str]) -> Iterator[tuple[int, str]]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name == "pow" and isinstance(node.func, ast.Name):
        yield node.lineno, "power"
    for keyword in node.keywords:
        if keyword.arg == "key" and getattr(keyword.value, "id", "") in {"id", "hash"}:
            yield node.lineno, f"by {ast.unparse(keyword.value)}"
    if not isinstance(node.func, ast.Attribute):
        return
    module = getattr(node.func.value, "id", "")
    if (name == "argsort" or (module in ARRAYS and name in NUMPY_SORTS)) and not _is_stable(node):
        yield node.lineno, f"{name} that is not stable"
    if name in METHODS_BANNED and module not in {*ARRAYS, "str"}:
        yield from _method(node, name)
    if name == "pop" and not node.args and purity.is_set(node.func.value, sets):
        yield node.lineno, "pop of a set"


def _method(node: ast.Call, name: str) -> Iterator[tuple[int, str]]:
    is_split = name == "partition" and bool(node.args) and _is_text(node.args[0])
    if not is_split:
        yield node.lineno, f".{name}()"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def _is_stable(node: ast.Call) -> bool:
    kinds = [k.value for k in node.keywords if k.arg == "kind"]
    return any(isinstance(kind, ast.Constant) and kind.value in STABLE for kind in kinds)
