"""Templates are filled in where a task runs."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace.documents import substitute


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    command: tuple[str, ...]
    setup: tuple[str, ...] = ()
    env: dict[str, str] = {}
    workdir: str = ""
    commands: dict[str, tuple[str, ...]] = {}


def filled(launch, **values):
    given_values = {"params": {}, "job": "a-1/2", "index": 2, "project": "vision"} | values
    return substitute(launch, **given_values)


def test_every_place_that_runs_is_filled_in():
    launch = Launch(
        command=("x", "${{ params.lr }}"),
        setup=("${{job.id}}",),
        env={"A": "${{ job.index }}-${{ project }}"},
        workdir="/w/${{ job.index }}",
    )
    assert filled(launch, params={"lr": "0.1"}) == Launch(
        command=("x", "0.1"), setup=("a-1/2",), env={"A": "2-vision"}, workdir="/w/2"
    )


def test_a_value_is_never_read_as_a_template_itself():
    launch = Launch(command=("${{ params.a }}",))
    assert filled(launch, params={"a": "${{ project }}"}).command == ("${{ project }}",)


def test_what_is_not_known_stays_as_it_is_written():
    launch = Launch(command=("${{ params.b }} $HOME ${HOME} {{ project }}",))
    assert filled(launch).command == launch.command


@given(st.text(), st.text())
def test_filling_in_never_fails(text, value):
    launch = Launch(command=(text, "${{ params.a }}"))
    assert filled(launch, params={"a": value}).command[1] == value
