"""Decisions come out the same on every machine: no arithmetic or order that could differ."""

from __future__ import annotations

import ast

import pytest
from tests.architecture import exactness, purity, sources
from tests.architecture.test_purity import NOT_DECIDING

# What is meant, each with its reason.
MEANT = {
    "libs/headrace/documents/quantities.py: import decimal": "decimals are read digit by digit",
    "libs/headrace/documents/quantities.py: power": "the bytes of a unit, a power of an integer by a counter",
    "libs/headrace/documents/trials.py: import decimal": "decimals are read digit by digit",
}

PLANTED = [
    ("x = 0.5", "float 0.5"),
    ("x = 1 / 2", "true division /"),
    ("float(x)", "float()"),
    ("a @ b", "matrix product @"),
    ("np.dot(a, b)", "numpy.dot"),
    ("a.dot(b)", ".dot()"),
    ("np.einsum('i,i', a, b)", "numpy.einsum"),
    ("np.linalg.norm(a)", "numpy.linalg"),
    ("np.exp(a)", "numpy.exp"),
    ("np.log2(a)", "numpy.log2"),
    ("np.power(a, 2)", "numpy.power"),
    ("x = y ** z", "power"),
    ("x = 2 ** -1", "power"),
    ("x **= z", "power"),
    ("pow(x, z)", "power"),
    ("np.sum(a)", "numpy.sum"),
    ("np.cumsum(a)", "numpy.cumsum"),
    ("a.mean()", ".mean()"),
    ("np.float32(1)", "numpy.float32"),
    ("np.argpartition(a, 3)", "numpy.argpartition"),
    ("a.argpartition(3)", ".argpartition()"),
    ("a.partition(3)", ".partition()"),
    ("np.random.default_rng(1)", "numpy.random"),
    ("math.exp(x)", "math.exp"),
    ("math.fsum(x)", "math.fsum"),
    ("from math import exp", "from math"),
    ("from numpy import dot", "from numpy"),
    ("import math as m", "math as m"),
    ("import statistics", "import statistics"),
    ("import decimal", "import decimal"),
    ("np.argsort(a)", "argsort that is not stable"),
    ("a.argsort(kind='quicksort')", "argsort that is not stable"),
    ("np.sort(a)", "sort that is not stable"),
    ("d.popitem()", "popitem"),
    ("names = {1, 2}\nnames.pop()", "pop of a set"),
    ("for x in {1, 2}:\n    pass", "order of a set"),
    ("for x in frozenset(y):\n    pass", "order of a set"),
    ("tuple({x for x in y})", "order of a set"),
    ("{x: 1 for x in set(y)}", "order of a set"),
    ("hash(x)", "hash()"),
    ("id(x)", "id()"),
    ("sorted(x, key=id)", "by id"),
    ("x.sort(key=hash)", "by hash"),
    ("a, b = {1, 2}", "order of a set"),
    ("next(iter(x.keys() & y.keys()))", "order of a set"),
    ("for x in y.union(z):\n    pass", "order of a set"),
]

HARMLESS = [
    "x = 2 ** 53",
    "math.isqrt(9) + math.floor(x) + math.ceil(x)",
    "a.argsort(kind='stable')",
    "np.argsort(a, kind='stable')",
    "sorted(x, key=lambda y: y.name)",
    "x.sort(key=lambda y: (-y.milli, y.name))",
    "max(x, key=lambda y: (y.milli, y.name))",
    "text.partition(':')",
    "names = [1]\nnames.pop()",
    "for x in sorted(set(y)):\n    pass",
    "x = sum(y)",
]


def _found(tree: ast.Module) -> list[tuple[int, str]]:
    return [*purity.impurities(tree), *exactness.inexact(tree)]


def test_what_decides_is_exact() -> None:
    found = {
        f"{sources.name_of(path)}: {what}": line
        for path in sources.pure_files()
        if sources.name_of(path) not in NOT_DECIDING
        for line, what in exactness.inexact(sources.tree_of(path))
    }

    assert {what: found[what] for what in found if what not in MEANT} == {}
    assert set(MEANT) <= set(found), "an exception is not needed any more"


@pytest.mark.parametrize(("source", "what"), PLANTED)
def test_each_inexactness_is_found(source: str, what: str) -> None:
    assert what in [found for _, found in _found(ast.parse(source))]


@pytest.mark.parametrize("source", HARMLESS)
def test_what_is_exact_is_let_pass(source: str) -> None:
    assert _found(ast.parse(source)) == []
