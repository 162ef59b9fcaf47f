"""The command line, run against a gateway whose services the test plays."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

import pytest
from tests.cli.program import TIMEOUT_S, Program
from tests.gateway.world import TOKEN, World, served_world

from headrace.cli.__main__ import main


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with served_world() as served:
        yield served


@pytest.fixture
def start(world, tmp_path):
    async def started_program(*words, stdin=None, **env):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "headrace.cli", *words),
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "HEADRACE_URL": world.url,
                "HEADRACE_TOKEN": TOKEN,
                "XDG_CONFIG_HOME": str(tmp_path),
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                **env,
            },
        )
        if stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        return Program(process)

    return started_program


@pytest.fixture
def headrace(world, start, tmp_path, capsys, monkeypatch):
    """A whole run: in this process where that is the same, which saves the start."""
    monkeypatch.setenv("HEADRACE_URL", world.url)
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def performed(words):
        monkeypatch.setattr("sys.argv", ["headrace", *words])
        try:
            return main()
        except SystemExit as error:
            return error.code

    async def ended(*words, stdin=None, **env):
        if stdin is not None:
            program = await start(*words, stdin=stdin, **env)
            return await program.end()
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        code = await asyncio.wait_for(asyncio.to_thread(performed, words), TIMEOUT_S)
        return code, *capsys.readouterr()

    return ended
