"""Whatever a value is, a command sees its bytes and bash never parses them."""

from __future__ import annotations

import os
import subprocess

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.documents.test_substitution import Launch, filled

from headrace.documents.job_file import JobFile
from headrace.documents.plan import plan
from headrace.documents.shell_text import SHELL
from headrace.documents.substitution import variable_of
from headrace.events import Refusal

HOSTILE = (
    "$(touch made)", "`touch made`", "; touch made;", "' ; touch made; '", '" ; touch made; "',
    "a\nb\n", "\n", "-rf", "*", "~", "a  b", "\\", "\\'", "$HOME", "${HOME}", "!!", "{a,b}", "#", "",
    "&& touch made", "| touch made", ">made", "<(touch made)", "x[$(touch made)]", "EOF\ntouch made",
    "ü☃\U0001f600", "x" * 10_000, "\x01\x7f\t\r", "${{ params.x }}", "]] && touch made",
)  # fmt: skip
WITHIN = {  # what takes a value, with what comes before and after it in the one argument it is in
    "show ${{ params.x }}": ("", ""),
    "show a${{ params.x }}b": ("a", "b"),
    'show "${{ params.x }}"': ("", ""),
    'show "a ${{params.x}} b"': ("a ", " b"),
    "show 'a'${{ params.x }}\"b\"": ("a", "b"),
    'y=${{ params.x }}\nshow "$y"': ("", ""),
    'export y="a${{ params.x }}"; show "$y"': ("a", ""),
    "y=$(show ${{ params.x }}; echo .)\nprintf '%s' \"${y%?}\"": ("", ""),
    'y="$(show "${{ params.x }}"; echo .)"; printf "%s" "${y%?}"': ("", ""),
    "# it's a comment\nshow ${{ params.x }}": ("", ""),
    "cat <<'E' >/dev/null\nit's a text\nE\nshow ${{ params.x }}": ("", ""),
    "case a in a) show ${{ params.x }};; esac": ("", ""),
    "if [ ${{ params.x }} = y ] || true; then show ${{ params.x }}; fi": ("", ""),
    'for y in ${{ params.x }}; do show "$y"; done': ("", ""),
    'cat <<< ${{ params.x }} > kept; show "$(cat kept; echo .)" | head -c -2': ("", ""),
    "(show ${{ params.x }})": ("", ""),
    "( (show ${{ params.x }}) )": ("", ""),
    "echo $((1 << 2)) ${#HOME} >/dev/null; show ${{ params.x }}": ("", ""),
    "env true; show ${{ params.x }} # ${{ params.x }}": ("", ""),
    'args=(a${{ params.x }}); show "${args[@]}"': ("a", ""),
    "show \\\n  ${{ params.x }} 2>&1": ("", ""),
    "! false && A=1 'show' ${{ params.x }}": ("", ""),
    "f() { show ${{ params.x }}; }; f": ("", ""),
    "printf %s ${{ params.x }}": ("", ""),
    'exec "$PWD"/../../../../../../../usr/bin/printf %s ${{ params.x }}': ("", ""),
    "{ show ${{ params.x }}; } 2>>kept": ("", ""),
    "case ${{ params.x }} in a) true;; *) true;; esac; show ${{ params.x }}": ("", ""),
}
ATTACKS = ("touch made", "$(touch made)", "x[$(touch made)]", "-vx[$(touch made)]", "-v")
ACCEPTED = (  # commands that take a value, and do something else than to show it
    "echo ${{ params.x }}", "cd ${{ params.x }}", "pushd ${{ params.x }}", "exit ${{ params.x }}",
    ": ${{ params.x }}", "true > ${{ params.x }}", "exec 3> ${{ params.x }}",
    "[ ${{ params.x }} = a ]", "[ ${{ params.x }} -eq 1 ]", "test -d ${{ params.x }}",
    "printf '%d %s' ${{ params.x }} ${{ params.x }}", "y=(${{ params.x }} b)", "y=${{ params.x }} env",
    "export y=${{ params.x }}", "docker run -v ${{ params.x }} a", "ls >(cat ${{ params.x }})",
    "for y in a ${{ params.x }}; do :; done < ${{ params.x }}", "$HOME/bin/a --lr=${{ params.x }}",
)  # fmt: skip
SHOW = 'show() { [ "$#" = 1 ] && printf "%s" "$1"; }\n'

REFUSED = (
    "echo '${{ params.x }}'", "echo $'${{ params.x }}'", "echo \"'\"'${{ params.x }}'",
    "echo $((${{ params.x }} + 1))", "((y = ${{ params.x }}))", "echo $[${{ params.x }}]",
    "echo $(( $(echo ${{ params.x }}) ))", "[[ ${{ params.x }} -eq 1 ]]", "echo ${y:-${{ params.x }}}",
    "y[${{ params.x }}]=1", "echo `echo ${{ params.x }}`", "eval ${{ params.x }}",
    'bash -c "echo ${{ params.x }}"', 'env A=1 sh -euc "${{ params.x }}"', "let y=${{ params.x }}",
    "python <<E\n${{ params.x }}\nE", "cat <<'E'\n${{ params.x }}\nE", "python3 -c ${{ params.x }}",
    "echo \\${{ params.x }}", "echo $${{ params.x }}", "[ -v ${{ params.x }} ]",
    "declare -i y=${{ params.x }}", "printf -v ${{ params.x }} a", ". ${{ params.x }}",
    'echo "$(case a in a) echo ${{ params.x }};; esac)"',
    "read ${{ params.x }} <<< hi", "mapfile -C ${{ params.x }} -c 1 zz <<< a",
    "readarray -C ${{ params.x }} -c 1 zz <<< a", "compgen -C ${{ params.x }}",
    "compgen -W ${{ params.x }}", "\\eval ${{ params.x }}", '"eval" ${{ params.x }}',
    "e'val' ${{ params.x }}", "ev\\\nal ${{ params.x }}", "$'eval' ${{ params.x }}",
    "{eval,:} ${{ params.x }}", "e$(:)val ${{ params.x }}", "y=eval; $y ${{ params.x }}",
    "BASH_ENV=${{ params.x }} bash -c :", "env BASH_ENV=${{ params.x }} bash -c :",
    "ENV=${{ params.x }} sh -ic :", "PS4=${{ params.x }}; set -x; :",
    "export PS4=${{ params.x }}; set -x; :", "PROMPT_COMMAND=${{ params.x }} bash -i </dev/null",
    "declare -i n; n=${{ params.x }}", "local -gi n; n=${{ params.x }}", "RANDOM=${{ params.x }}",
    "for RANDOM in ${{ params.x }}; do :; done", "for PS4 in ${{ params.x }}; do :; done",
    "wait -p ${{ params.x }}", 'test -v"${{ params.x }}"', "[ '-v' \\\n ${{ params.x }} ]",
    "y=-v; [ $y ${{ params.x }} ]", "unset ${{ params.x }}", "unset 'y['${{ params.x }}",
    "printf ${{ params.x }} a", "printf '%n' ${{ params.x }}", "printf -v ${{ params.x }} %s a",
    "getopts a ${{ params.x }} -a", "export ${{ params.x }}", "declare ${{ params.x }}=1",
    "readonly y${{ params.x }}=1", "typeset ${{ params.x }}", "f() { local ${{ params.x }}; }; f",
    "trap ${{ params.x }} EXIT", "alias y=${{ params.x }}", "bind -x ${{ params.x }}",
    "complete -C ${{ params.x }} y", "coproc ${{ params.x }}", "coproc y { eval ${{ params.x }}; }",
    "${{ params.x }}", "exec ${{ params.x }}", "command -- eval ${{ params.x }}",
    "builtin eval ${{ params.x }}", "if eval ${{ params.x }}; then :; fi", ">kept eval ${{ params.x }}",
    "A=1 eval ${{ params.x }}", "f() { eval ${{ params.x }}; }; f", "(eval ${{ params.x }})",
    "function f { eval ${{ params.x }}; }; f", "case a in a) eval ${{ params.x }};; esac",
    "case a in (a) eval ${{ params.x }};; esac", 'eval "$(echo ${{ params.x }})"',
    "true &<kept eval ${{ params.x }}",
    "declare -i n; for n in ${{ params.x }}; do :; done",
    "declare \\\n -i n; read n <<< ${{ params.x }}", "declare -n n; n=${{ params.x }}; echo $n",
    "time -p eval ${{ params.x }}", "y=([${{ params.x }}]=1)", "bash <<< ${{ params.x }}",
    "source /dev/stdin <<< ${{ params.x }}", "<<< ${{ params.x }} source /dev/stdin",
    "bash -O extglob -c ${{ params.x }}", "python3 -c${{ params.x }}", "true 2>&1 | eval ${{ params.x }}",
    "shopt -s extglob\neval @(a|b) ${{ params.x }}", "'bash' \"-c\" ${{ params.x }}",
)  # fmt: skip


def run(command, value, folder):
    environment = {"PATH": os.environ["PATH"], "HOME": "/", variable_of("x"): value}
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, timeout=60, check=False
    )


def job(**fields):
    sweep = {"method": "list", "params": [{"x": "a"}]}
    return msgspec.convert({"name": "j", "sweep": sweep} | fields, JobFile)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("values")


@pytest.mark.parametrize("script", WITHIN)
@pytest.mark.parametrize("value", HOSTILE)
def test_a_script_reads_the_bytes_of_a_value(script, value, folder):
    check(script, value, folder)


@settings(max_examples=60)
@given(
    script=st.sampled_from(sorted(WITHIN)),
    value=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
)
@example(script="show ${{ params.x }}", value="$(touch made)")
def test_a_script_reads_whatever_a_value_is(script, value, folder):
    check(script, value, folder)


def check(script, value, folder):
    command = (*SHELL, SHOW + script)
    planned = plan(job(command=command[-1]))
    assert not isinstance(planned, Refusal), planned
    launch = filled(Launch(command=planned.command), params={"x": value})

    done = run(launch.command, value, folder)

    before, after = WITHIN[script]
    assert done.stdout == (before + value + after).encode(), done
    assert not (folder / "made").exists()


@pytest.mark.parametrize("script", REFUSED)
@pytest.mark.parametrize("field", ["command", "setup"])
def test_where_bash_would_not_read_or_would_run_a_value_it_is_refused(script, field, folder):
    refused = plan(job(**{"command": "true", field: script}))

    assert isinstance(refused, Refusal), refused
    assert (refused.field, refused.value.strip()) == (field, "${{ params.x }}")
    assert "HEADRACE_PARAM_X" in refused.instead
    left = filled(Launch(command=(*SHELL, script)), params={"x": "$(touch made)"}).command
    for value in ATTACKS:
        run(left, value, folder)
    assert left[-1] == script
    assert not (folder / "made").exists()


@pytest.mark.parametrize("script", ACCEPTED)
@pytest.mark.parametrize("value", [*ATTACKS, "([$(touch made)]=1)", "[$(touch made)]=1"])
def test_a_command_that_takes_a_value_runs_nothing_of_it(script, value, folder):
    planned = plan(job(command=script))
    assert not isinstance(planned, Refusal), planned
    launch = filled(Launch(command=planned.command), params={"x": value})

    run(launch.command, value, folder)

    assert not (folder / "made").exists()


@pytest.mark.parametrize("value", HOSTILE)
def test_a_list_takes_a_value_as_one_argument(value, folder):
    argv = ("printf", "%s", "a${{ params.x }}b")
    planned = plan(job(command=list(argv)))

    launch = filled(Launch(command=planned.command), params={"x": value})

    assert run(launch.command, value, folder).stdout == f"a{value}b".encode()


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "-c", "echo ${{ params.x }}"],
        ["env", "sh", "-eu", "-o", "pipefail", "-c", "${{ params.x }}"],
        ["/usr/bin/python3.11", "-I", "-W", "ignore", "-c", "${{ params.x }}"],
    ],
)
def test_an_argument_that_an_interpreter_runs_takes_no_value(command):
    refused = plan(job(command=command))
    assert refused.rule == "would be run as code"
    assert filled(Launch(command=tuple(command)), params={"x": "1"}).command == tuple(command)


def test_an_option_of_a_program_of_ones_own_takes_a_value():
    command = ["python", "train.py", "-c", "${{ params.x }}"]
    assert plan(job(command=command)).command == tuple(command)
    assert plan(job(command="python train.py -c ${{ params.x }} && find . -name ${{ params.x }}"))


@pytest.mark.parametrize("value", ["..", "../x", "a/b", "/etc", ".ssh", "", "a b", "a@b", "a\n"])
def test_a_path_takes_a_value_that_is_one_name(value):
    sweep = {"method": "list", "params": [{"x": value}]}
    fields = {"workdir": "/w/${{ params.x }}", "checkpoint": {"dir": "/ckpt/${{ params.x }}"}}
    for field, text in fields.items():
        refused = plan(job(command="true", sweep=sweep, **{field: text}))
        assert "is not one name below a folder" in refused.rule

    launch = Launch(command=("x",), workdir="/w/${{ params.x }}")
    assert filled(launch, params={"x": value}).workdir == "/w/${{ params.x }}"
    assert filled(launch, params={"x": "lr-1e-3"}).workdir == "/w/lr-1e-3"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("outputs", ["${{ params.x }}"]),
        ("volumes", ["data:/data/${{ params.x }}"]),
        ("workdir", "git+https://host/${{params.x}}@abc1234"),
    ],
)
def test_what_is_taken_as_it_is_written_has_no_values(field, value):
    refused = plan(job(command="true", **{field: value}))
    assert refused.field.startswith(field)
    assert refused.rule == "has no values filled in"


@pytest.mark.parametrize("name", ["BASH_ENV", "ENV", "PS4", "PATH", "LD_PRELOAD"])
def test_an_environment_variable_that_bash_evaluates_takes_no_value(name):
    env = {name: "${{ params.x }}"}
    assert plan(job(command="true", env=env)).field == f"env.{name}"
    assert filled(Launch(command=("x",), env=env), params={"x": "1"}).env == env


def test_the_words_of_headrace_stand_anywhere(folder):
    script = "echo $((${{ job.index }} + 1)) '${{ project }}' \"${{ job.id }}\""
    planned = plan(job(command=script))

    launch = filled(Launch(command=planned.command))

    assert run(launch.command, "", folder).stdout == b"3 vision a-1/2\n"
