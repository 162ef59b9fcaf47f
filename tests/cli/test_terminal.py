"""The command line on a real terminal: colours, widths, repainting, and what Tab offers."""

import asyncio
import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import pytest
from tests.cli.program import accept, in_log
from tests.gateway.histories import admitted, eligible, joined, placed, requested, started
from tests.gateway.test_streams import Agent
from tests.gateway.world import TOKEN

from headrace.cli.output import table

DEADLINE_S = 60.0


class Terminal:
    """A program on a terminal of so many columns; `text` is all that it painted so far."""

    def __init__(self, process, master):
        self.process, self._master, self.text = process, master, ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_over = False

    async def until(self, pattern):
        """Read until the pattern is there."""

        async def reading():
            while not re.search(pattern, self.text):
                assert not self._is_over, f"{pattern} is not in {self.text}"
                self.text += await asyncio.to_thread(self._read)

        await asyncio.wait_for(reading(), DEADLINE_S)

    async def end(self):
        """Read to the end; the exit code."""
        while not self._is_over:
            self.text += await asyncio.to_thread(self._read)
        return await asyncio.to_thread(self.process.wait, DEADLINE_S)

    def _read(self):
        """What came; a read may end in the middle of a character."""
        try:
            read = os.read(self._master, 65_536)
        except OSError:  # the other side is closed
            read = b""
        self._is_over = not read
        return self._decoder.decode(read)


@pytest.fixture
def on_terminal(world, tmp_path):
    opened = []

    def begun(*words, columns=100, **env):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli", *words],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"], "TERM": "xterm", "HEADRACE_URL": world.url,
                "HEADRACE_TOKEN": TOKEN, "XDG_CONFIG_HOME": str(tmp_path),
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **env,
            },
        )  # fmt: skip
        os.close(slave)
        opened.append((process, master))
        return Terminal(process, master)

    yield begun
    for process, master in opened:
        process.kill()
        process.wait()
        os.close(master)


async def a_job_that_runs(world):
    await in_log(world, joined(), requested(), admitted(), eligible(), placed(), started())


async def test_states_are_coloured_on_a_terminal(world, on_terminal):
    await a_job_that_runs(world)
    terminal = on_terminal("ps")
    assert await terminal.end() == 0
    assert "\x1b[32mrunning" in terminal.text


async def test_no_color_is_respected(world, on_terminal):
    await a_job_that_runs(world)
    terminal = on_terminal("ps", NO_COLOR="1")
    assert await terminal.end() == 0
    assert "running" in terminal.text
    assert "\x1b" not in terminal.text


@pytest.mark.parametrize("columns", [60, 80, 200])
async def test_a_table_is_as_wide_as_the_terminal(world, on_terminal, columns):
    await a_job_that_runs(world)
    await in_log(world, requested(job="other-b"), admitted(job="other-b"))
    for verb in ("events", "ps"):
        terminal = on_terminal(verb, columns=columns, NO_COLOR="1")
        assert await terminal.end() == 0
        assert max(len(line) for line in terminal.text.splitlines()) <= columns


def test_a_table_that_is_too_wide_is_cut_where_it_is_widest_and_not_in_its_names(
    capsys, monkeypatch
):
    monkeypatch.setattr("headrace.cli.output.columns", lambda: 40)
    table(
        ("JOB", "STATE", "WHY"), [("a-long-name-k3f9", "running 16 of many", "because of it all")]
    )
    head, line = capsys.readouterr().out.splitlines()
    assert line == "a-long-name-k3f9  running 16 of many  beca…"
    assert head == "JOB               STATE               WHY"
    monkeypatch.setattr("headrace.cli.output.columns", lambda: 0)
    table(("JOB", "STATE", "WHY"), [("a", "b" * 50, "c" * 50)])
    assert "c" * 50 in capsys.readouterr().out


async def test_watching_paints_over_what_changed(world, on_terminal):
    await in_log(world, joined(), requested(), admitted())
    terminal = on_terminal("ps", "--watch")
    await terminal.until("hello-a")
    assert "running" not in terminal.text
    await in_log(world, eligible(), placed(), started())
    await terminal.until("running")
    assert terminal.text.count("\x1b[2J") == 1
    assert terminal.text.count("\x1b[H") >= 2
    os.killpg(terminal.process.pid, signal.SIGINT)
    assert await terminal.end() == 130


async def test_watching_into_a_pipe_prints_what_changed_once(world, start):
    await in_log(world, joined(), requested(), admitted())
    program = await start("ps", "--watch")
    lines = [await program.line(), await program.line()]
    await in_log(world, eligible(), placed(), started())
    lines += [await program.line(), await program.line()]
    assert [line.split()[0] for line in lines] == ["JOB", "hello-a", "JOB", "hello-a"]
    assert "running" in lines[3]
    await program.interrupt()
    assert (await program.end())[0] == 130


async def test_watching_ends_when_the_platform_refuses(world, headrace):
    code, _, err = await headrace("describe", "nobody", "--watch")
    assert code == 1
    assert "no job nobody is known" in err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["su"], ["submit"]),
        (["node", "de"], ["delete", "describe"]),
        (["node", "list", "--wa"], ["--watch"]),
        (["ps", "-o", ""], ["json", "table", "wide", "yaml"]),
        (["logs", "he"], ["hello-a"]),
        (["logs", "-f", ""], ["hello-a"]),
        (["node", "describe", ""], ["n1"]),
        (["nothing", ""], []),
        (["sbatch", "--gp"], []),
    ],
)
async def test_tab_offers_what_may_stand_there(world, headrace, words, offered):
    await a_job_that_runs(world)
    code, out, err = await headrace("completion", "--ask", *words)
    assert (code, out.split(), err) == (0, offered, "")


async def test_tab_is_silent_without_a_platform(headrace):
    dead = "http://127.0.0.1:1"
    assert await headrace("completion", "--ask", "logs", "", HEADRACE_URL=dead) == (0, "", "")


async def test_bash_completes_with_it(world, tmp_path):
    await a_job_that_runs(world)
    (tmp_path / "headrace").write_text(f'#!/bin/sh\nexec {sys.executable} -m headrace.cli "$@"\n')
    (tmp_path / "headrace").chmod(0o755)
    script = (
        "source <(headrace completion bash)\n"
        "COMP_WORDS=(headrace logs he); COMP_CWORD=2; _headrace; echo ${COMPREPLY[@]}\n"
    )
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HEADRACE_URL": world.url,
        "HEADRACE_TOKEN": TOKEN,
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, env=env, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert out == b"hello-a\n"


async def test_markup_in_a_name_never_reaches_the_terminal(world, on_terminal):
    await accept(world, "job.cancel", job="evil\x1b[2J")
    await in_log(world, joined(), requested(), admitted())
    terminal = on_terminal("cancel", "hello-a")
    assert await terminal.end() == 0
    assert "\x1b" not in terminal.text


HARM = b"\x1b]0;title\x07\x1b[31mred\x1b[0m\x1b[2J\x1b[H\x9b2Jup\rover\n"


@pytest.mark.parametrize(("env", "red"), [({}, "\x1b[31mred\x1b[0m"), ({"NO_COLOR": "1"}, "red")])
async def test_what_workers_wrote_keeps_its_colours_and_moves_no_cursor(
    world, on_terminal, env, red
):
    agent = await Agent(world).start()
    agent.output[1, 0] = HARM
    agent.ended.add((1, 0))
    await a_job_that_runs(world)
    terminal = on_terminal("logs", "hello-a", **env)
    assert await terminal.end() == 0
    assert f"\\x1b]0;title\\x07{red}\\x1b[2J\\x1b[H" in terminal.text
    assert "up\\rover" in terminal.text
    for harm in ("\x1b]", "\x1b[2J", "\x1b[H", "\x9b", "\x07"):
        assert harm not in terminal.text


async def test_what_workers_wrote_goes_into_a_pipe_as_it_is(world, start):
    agent = await Agent(world).start()
    agent.output[1, 0] = b"\x1b[31mred\x1b[0m\n"
    agent.ended.add((1, 0))
    await a_job_that_runs(world)
    assert await (await start("logs", "hello-a")).end() == (0, "\x1b[31mred\x1b[0m\n", "")


async def test_a_run_that_waits_moves_on_a_terminal_within_one_line(world, on_terminal):
    await accept(world, "job.submit", job="hello-a")
    await in_log(world, requested(), admitted(), eligible())
    terminal = on_terminal("run", "-p", "vision", "--", "true", columns=30)
    await terminal.until("waiting")
    os.killpg(terminal.process.pid, signal.SIGINT)
    assert await terminal.end() == 130
    painted = re.findall(r"\r([^\r\n\x1b]*)\x1b\[K", terminal.text)
    assert max(map(len, painted)) < 30
    assert painted[-1] == ""
    assert "hello-a waits on" in terminal.text
