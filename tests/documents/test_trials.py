"""Sweeps and arrays."""

import pytest

from headrace.documents import Plan, draw, plan, read_job
from headrace.events import Refusal


class Lowest:
    """Draws the lowest of everything, and remembers what was asked for."""

    def __init__(self):
        self.asked = []

    def below(self, bound):
        self.asked.append(bound)
        return 0

    def uniform(self, low, high):
        self.asked.append(("uniform", low, high))
        return low

    def log_uniform(self, low, high):
        self.asked.append(("log_uniform", low, high))
        return low


def tasks(**fields):
    job = read_job({"command": "x"} | fields)
    found = job if isinstance(job, Refusal) else plan(job)
    assert isinstance(found, Plan), found
    return found.tasks


def refused(**sweep):
    job = read_job({"command": "x", "sweep": sweep})
    found = job if isinstance(job, Refusal) else plan(job)
    assert isinstance(found, Refusal), found
    return str(found)


def test_an_array_is_so_many_tasks_so_many_at_a_time():
    found = tasks(array="0..99%8")
    assert (found.kind, found.count, found.parallel) == ("array", 100, 8)
    assert draw(found, Lowest()) == ({},) * 100
    assert tasks(array="0..0").parallel == 0


def test_a_grid_is_every_combination_in_the_order_written():
    found = tasks(sweep={"method": "grid", "params": {"lr": ["0.1", 0.2], "depth": [2, 4]}})
    assert draw(found, Lowest()) == (
        {"lr": "0.1", "depth": "2"},
        {"lr": "0.1", "depth": "4"},
        {"lr": "0.2", "depth": "2"},
        {"lr": "0.2", "depth": "4"},
    )


def test_a_list_is_taken_as_it_is():
    found = tasks(sweep={"method": "list", "params": [{"a": 1, "b": True}, {"b": False, "a": "x"}]})
    assert draw(found, Lowest()) == ({"a": "1", "b": "true"}, {"a": "x", "b": "false"})


def test_random_trials_are_drawn_by_whoever_is_given():
    params = {
        "lr": {"log_uniform": ["1.0e-5", 0.1]},
        "p": {"uniform": [0, 1]},
        "n": {"integers": [3, 9]},
        "depth": [2, 4, 8],
    }
    found = tasks(sweep={"method": "random", "params": params, "trials": 1, "seed": 7})
    lowest = Lowest()
    assert draw(found, lowest) == ({"lr": "1.0e-5", "p": "0", "n": "3", "depth": "2"},)
    assert lowest.asked == [("log_uniform", "1.0e-5", "0.1"), ("uniform", "0", "1"), 7, 3]
    assert found.seed == 7


def test_how_many_run_and_how_many_may_fail_is_kept():
    sweep = {"method": "grid", "params": {"a": [1, 2]}, "parallel": 2, "stop_after_failures": 1}
    found = tasks(sweep=sweep)
    assert (found.kind, found.parallel, found.stop_after_failures) == ("sweep", 2, 1)


def test_templates_know_the_parameters_of_the_sweep():
    job = {
        "command": "x ${{ params.lr }} ${{ job.index }}",
        "sweep": {"method": "grid", "params": {"lr": [1]}},
    }
    assert isinstance(plan(read_job(job)), Plan)
    wrong = plan(read_job(job | {"command": "x ${{ params.rl }}"}))
    assert wrong.instead == "did you mean params.lr?"


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({}, "refused: sweep.method — must be given; grid, random, list"),
        ({"method": "bayes"}, "refused: sweep.method = bayes — is not a method; grid, random, list"),
        ({"method": "grid"}, "refused: sweep.params — must be a mapping of names to lists of values"),
        ({"method": "grid", "params": {"a": 1}}, "refused: sweep.params.a — a grid needs a list of values; [1, 2, 3]"),
        ({"method": "grid", "params": {"a": [1, 2]}, "trials": 3}, "refused: sweep.trials = 3 — method grid makes 2 trials of these params; leave it out"),
        ({"method": "grid", "params": {"a": list(range(40)), "b": list(range(40))}}, "refused: sweep.params — the grid has 1600 trials; at most 1000 are taken; method: random"),
        ({"method": "grid", "params": {"a b": [1]}}, "refused: sweep.params = a b — a parameter's name has 1 to 41 letters, digits and _, no digit first"),
        ({"method": "grid", "params": {"lr": [1], "LR": [1]}}, "refused: sweep.params.LR — differs from lr only in capitals; another name"),
        ({"method": "grid", "params": {"a": [[1]]}}, "refused: sweep.params.a[0] — must be text, a number, true or false"),
        ({"method": "random", "params": {"a": [1]}}, "refused: sweep.trials = 0 — must be a whole number from 1 to 1000"),
        ({"method": "random", "params": {"a": {"normal": [0, 1]}}, "trials": 1}, "refused: sweep.params.a.normal — is not a range; uniform, log_uniform, integers"),
        ({"method": "random", "params": {"a": {"uniform": [1, 0]}}, "trials": 1}, "refused: sweep.params.a.uniform — the first end must be below the second"),
        ({"method": "random", "params": {"a": {"log_uniform": [0, 1]}}, "trials": 1}, "refused: sweep.params.a.log_uniform — both ends must be above 0"),
        ({"method": "random", "params": {"a": {"integers": ["0.5", 1]}}, "trials": 1}, "refused: sweep.params.a.integers — both ends must be whole numbers"),
        ({"method": "random", "params": {"a": {"uniform": ["x", 1]}}, "trials": 1}, "refused: sweep.params.a.uniform = x — must be a number"),
        ({"method": "random", "params": {"a": [1]}, "trials": 1001}, "refused: sweep.trials = 1001 — must be a whole number from 1 to 1000"),
        ({"method": "list", "params": {}}, "refused: sweep.params — must be a list of 1 to 1000 mappings, one for each trial; [{lr: 0.1}, {lr: 0.2}]"),
        ({"method": "list", "params": [{"a": 1}, {"b": 1}]}, "refused: sweep.params[1] — every trial must have the same names; a"),
        ({"method": "grid", "params": {"a": [1]}, "objective": {"metric": "x"}}, "refused: sweep.objective.goal — must be given; max or min"),
        ({"method": "grid", "params": {"a": [1]}, "objective": {"metric": "x", "goal": "up"}}, "refused: sweep.objective.goal = up — is not one of the words known here; max or min"),
        ({"method": "grid", "params": {"a": [1]}, "objective": {"metric": "a-b", "goal": "max"}}, "refused: sweep.objective.metric = a-b — is the name of a value that trials report; accuracy"),
        ({"method": "grid", "params": {"a": [1]}, "objective": {"metrik": "x"}}, "refused: sweep.objective.metrik — unknown field; did you mean metric?"),
    ],
)  # fmt: skip
def test_what_is_no_sweep_is_refused_in_one_line(sweep, said):
    assert refused(**sweep) == said


@pytest.mark.parametrize("array", ["0..1000", "9..0", "x", "0..9%0", "0..9%", "-1..2", "0.. 9"])
def test_what_is_no_array_is_refused(array):
    assert isinstance(plan(read_job({"command": "x", "array": array})), Refusal)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"array": 4}, "array = 4 — is not a range of indexes; 0..3 is 4 tasks"),
        ({"array": "1-4"}, "array = 1-4 — is not a range of indexes; 0..99 is a hundred tasks"),
        ({"array": 0}, "array = 0 — is not a range of indexes; 0..99 is a hundred tasks"),
        ({"array": "0..3", "parallel": 2}, "parallel — unknown field; array: 0..99%8 for eight"),
    ],
)
def test_what_is_no_array_is_answered_with_how_one_is_written(fields, said):
    job = read_job({"command": "x", **fields})
    refused = job if isinstance(job, Refusal) else plan(job)
    assert str(refused).startswith(f"refused: {said}")
