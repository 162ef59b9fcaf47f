"""What may not stand in a module that decides, found in its syntax tree.

Rule: nothing whose result depends on anything but the arguments: no clock, chance, environment or
I/O, no floats, no order of a set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

IMPORTS_BANNED = {
    "asyncio", "time", "random", "uuid", "os", "logging", "datetime", "socket", "subprocess",
    "threading", "multiprocessing", "concurrent", "pathlib", "io", "tempfile", "secrets", "signal",
    "urllib", "http", "ssl", "shutil", "sys", "gc", "weakref", "locale", "zoneinfo",
    "nats", "asyncpg", "opentelemetry", "pynvml", "litestar", "cryptography", "uvloop",
}  # fmt: skip
CALLS_BANNED = {"open", "print", "input", "hash", "id", "float", "eval", "exec", "globals"}
MATH_ALLOWED = {"floor", "ceil", "isqrt", "gcd", "lcm", "comb", "prod"}
NUMPY_BANNED = {
    "dot", "einsum", "matmul", "linalg", "exp", "exp2", "log", "log2", "log10", "power", "float32",
    "float64", "float16", "argpartition", "partition", "random", "mean", "average", "std", "var",
    "divide", "true_divide", "sqrt", "inner", "outer", "tensordot",
}  # fmt: skip
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
ORDER_FREE = {"sorted", "len", "any", "all", "min", "max", "sum", "set", "frozenset", "Counter"}


def impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each impurity with its line."""
    yield from _imports(tree)
    yield from _arithmetic(tree)
    yield from _calls(tree)
    yield from _set_orders(tree)


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] in IMPORTS_BANNED:
                yield node.lineno, f"import {name}"


def _arithmetic(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            yield node.lineno, f"float {node.value}"
        if isinstance(node, ast.BinOp | ast.AugAssign):
            if isinstance(node.op, ast.Div):
                yield node.lineno, "true division /"
            elif isinstance(node.op, ast.MatMult):
                yield node.lineno, "matrix product @"


def _calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in CALLS_BANNED:
            yield node.lineno, f"{ast.unparse(node.func)}()"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = node.value.id, node.attr
            if module == "math" and name not in MATH_ALLOWED:
                yield node.lineno, f"math.{name}"
            if module in {"np", "numpy"} and name in NUMPY_BANNED:
                yield node.lineno, f"numpy.{name}"


def _set_orders(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where elements of a set are taken in the set's own order."""
    sets = names_of_sets(tree)
    harmless = _order_free_iterations(tree)
    for node in ast.walk(tree):
        for taken in _iterated(node):
            if id(node) not in harmless and is_set(taken, sets):
                yield taken.lineno, "order of a set"


def _iterated(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.For):
        return [node.iter]
    if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
        return [generator.iter for generator in node.generators]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List):
        return [node.value]
    if isinstance(node, ast.Call) and node.args:
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in {"list", "tuple", "iter", "enumerate", "join", "zip", "map", "filter", "extend"}:
            return list(node.args)
        if name == "pop" and isinstance(node.func, ast.Attribute):
            return []
    return []


def _order_free_iterations(tree: ast.Module) -> set[int]:
    """The generator expressions whose consumer does not care about order."""
    harmless: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ORDER_FREE:
            harmless.update(id(argument) for argument in node.args)
    return harmless


def names_of_sets(tree: ast.Module) -> set[str]:
    """Every name and attribute that is a set somewhere in this module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and is_set(node.value, names):
            names.update(_target(target) for target in node.targets)
        if isinstance(node, ast.AnnAssign) and _annotates_set(node.annotation):
            names.add(_target(node.target))
        if isinstance(node, ast.arg) and node.annotation and _annotates_set(node.annotation):
            names.add(node.arg)
    return names - {""}


def _annotates_set(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).partition("[")[0] in {"set", "frozenset", "AbstractSet"}


def _target(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))


def is_set(node: ast.expr, names: set[str]) -> bool:
    """Whether the expression is a set, as far as its module tells. `names` are those of sets."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        return name in {"set", "frozenset", *SET_METHODS}
    if isinstance(node, ast.BinOp) and isinstance(node.op, SET_OPERATORS):
        sides = (node.left, node.right)
        return any(is_set(side, names) or _is_keys(side) for side in sides)
    return _target(node) in names if isinstance(node, ast.Name | ast.Attribute) else False


def _is_keys(node: ast.expr) -> bool:
    """A mapping's keys, which with another's make a set."""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {"keys", "items"}
