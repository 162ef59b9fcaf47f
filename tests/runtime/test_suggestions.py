"""What is suggested to whoever named something that is not there."""

import pytest

from headrace.documents.nearest import edits, nearest
from headrace.events import Refusal
from headrace.runtime.suggestions import ALL_BURST, BURST, PER_S, Names, Suggestions

POOLS = Refusal(field="pools", value="sport", rule="there is no such pool", unknown="pool")
NAMES = Names(["spot", "train"])


class Clock:
    """A clock that stands until it is moved."""

    now_s = 0.0

    def __call__(self):
        return self.now_s


def completed(refusal, names=NAMES):
    return Suggestions(lambda *_: names, Clock()).complete(refusal, None, "vision").instead


def test_the_nearest_name_is_suggested_else_those_that_there_are():
    assert completed(POOLS) == "did you mean spot?"
    assert completed(POOLS, Names(["a", "b"])) == "pools: a, b"
    assert completed(POOLS, Names(["a", "b"], are_listed=False)) == ""
    assert completed(POOLS, Names([])) == ""


def test_what_the_decision_says_stays():
    said = Refusal(field="f", value="sport", rule="r", unknown="pool", instead="make it")
    assert completed(said) == "did you mean spot? Or make it"
    assert completed(said, Names(["a"])) == "make it"
    assert completed(Refusal(field="f", value="sport", rule="r")) == ""


def test_only_the_first_refusals_of_a_project_and_of_all_are_completed():
    clock, asked = Clock(), []
    suggestions = Suggestions(lambda *_: asked.append(1) or NAMES, clock)

    def suggested(project):
        return bool(suggestions.complete(POOLS, None, project).instead)

    assert [suggested("flood") for _ in range(1000)].count(True) == BURST == len(asked)
    assert suggested("vision")
    assert sum(suggested(f"p{number}") for number in range(1000)) == ALL_BURST - BURST - 1
    clock.now_s = 1.0
    assert [suggested("flood") for _ in range(1000)].count(True) == PER_S


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("", "", 0), ("", "abc", 3), ("abc", "", 3), ("vision", "visoin", 1), ("abc", "abd", 1),
        ("ab", "ba", 1), ("abcd", "badc", 2), ("ca", "abc", 3), ("train", "trian-2", 3),
        ("x" * 64, "y" * 64, 64),
    ],
)  # fmt: skip
def test_edits_are_insertions_deletions_replacements_and_swaps(one, other, apart):
    assert edits(one, other) == edits(other, one) == apart


def test_the_nearest_of_several_is_the_one_that_begins_alike():
    assert nearest("train-k3f8", ["trazn-k3f8", "train-k3f9"]) == "train-k3f9"
