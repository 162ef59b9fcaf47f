"""Decisions are pure and exact: no clock, chance, I/O, floats or set order where they are made."""

from __future__ import annotations

import ast

import pytest
from tests.architecture import purity, sources

# Modules of pure packages that are not part of any decision, each with its reason.
NOT_DECIDING = {
    "libs/headrace/events/export.py": "writes the generated schemas; nothing imports it",
    "libs/headrace/decider/version.py": "reads the deciding code itself, once, at process start",
}
# Single findings that are meant, each with its reason.
MEANT: dict[str, str] = {
    "libs/headrace/documents/webhook_file.py: import urllib.parse": "takes an address apart",
}


def test_modules_that_decide_are_pure() -> None:
    found = {
        f"{sources.name_of(path)}: {what}": line
        for path in sources.pure_files()
        if sources.name_of(path) not in NOT_DECIDING
        for line, what in purity.impurities(sources.tree_of(path))
    }

    assert {what: found[what] for what in found if what not in MEANT} == {}
    assert set(MEANT) <= set(found), "an exception is not needed any more"


def test_every_deciding_service_keeps_its_state_and_decisions_apart() -> None:
    deciding = [
        name for name in sources.service_names() if (sources.SERVICES / name / "decide.py").exists()
    ]

    assert {"admission", "metrics", "placement", "quota"} <= set(deciding)
    assert [name for name in deciding if not (sources.SERVICES / name / "state.py").exists()] == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import time", "import time"),
        ("from datetime import datetime", "import datetime"),
        ("import os.path", "import os.path"),
        ("x = 1 / 2", "true division /"),
        ("x /= 2", "true division /"),
        ("x = 0.5", "float 0.5"),
        ("a @ b", "matrix product @"),
        ("hash(x)", "hash()"),
        ("float(x)", "float()"),
        ("math.exp(x)", "math.exp"),
        ("np.dot(a, b)", "numpy.dot"),
        ("for x in {1, 2}:\n    pass", "order of a set"),
        ("for x in set(y):\n    pass", "order of a set"),
        ("list(frozenset(y))", "order of a set"),
        ("[x for x in {y for y in z}]", "order of a set"),
        ("names = set()\nfor x in names:\n    pass", "order of a set"),
        ("class S:\n    names: set[str]\n\ndef f(s):\n    return tuple(s.names)", "order of a set"),
        ("def f(names: frozenset[str]):\n    return ','.join(names)", "order of a set"),
        ("x = [*{1, 2}]", "order of a set"),
        ("for x in {1} | y:\n    pass", "order of a set"),
    ],
)
def test_each_impurity_is_found(source: str, what: str) -> None:
    assert what in [found for _, found in purity.impurities(ast.parse(source))]


@pytest.mark.parametrize(
    "source",
    [
        "for x in sorted({1, 2}):\n    pass",
        "any(x > 1 for x in {1, 2})",
        "len({x for x in [1]})",
        "x = 7 // 2",
        "x in {1, 2}",
        "names = set(y)\nx in names",
        "math.isqrt(9)",
    ],
)
def test_what_does_no_harm_is_let_pass(source: str) -> None:
    assert list(purity.impurities(ast.parse(source))) == []
