"""What a service's log looks like, whatever happens in it."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest

from headrace.telemetry import logs


@pytest.fixture
def lines():
    """A logger that writes as a service does, and what it wrote."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.LineFormatter("placement"))
    logger = logging.getLogger("tests.telemetry")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    yield logger, stream
    logger.removeHandler(handler)


def test_a_record_is_one_line(lines) -> None:
    logger, stream = lines

    logger.warning("node silent node=%s", "n1")

    assert stream.getvalue()[25:] == "WARNING placement node silent node=n1\n"


def test_an_exception_is_told_on_the_same_line(lines) -> None:
    logger, stream = lines

    try:
        int("no\nnode")
    except ValueError:
        logger.exception("effect failed")

    text = stream.getvalue()
    assert text[25:].startswith("ERROR placement effect failed error=ValueError: invalid literal")
    assert text.count("\n") == 1
    assert "Traceback" not in text


def test_control_characters_cannot_leave_their_line(lines) -> None:
    logger, stream = lines

    logger.info("name=%s", "a\r\n\x1b[2Jb\u2028c\x00")

    assert stream.getvalue()[25:] == "INFO placement name=a\\r\\n\\x1b[2Jb\\u2028c\\x00\n"


def test_arguments_that_do_not_fit_do_no_harm() -> None:
    record = logging.LogRecord("x", logging.INFO, "f.py", 7, "%d nodes", ("many",), None)

    record.created = 1_795_000_000.125

    line = logs.LineFormatter("placement").format(record)

    assert line == "2026-11-18T11:06:40.125Z INFO placement %d nodes"


def test_a_long_line_is_cut(lines) -> None:
    logger, stream = lines

    logger.info("x" * 10_000)

    assert len(stream.getvalue()) == logs.LINE_CHARACTERS_MAX + 1


def test_repeats_are_counted_and_not_printed() -> None:
    now_s = [0.0]
    repeats = logs.Repeats(lambda: now_s[0])

    def record() -> logging.LogRecord:
        return logging.LogRecord("x", logging.INFO, "f.py", 7, "again", (), None)

    passed = sum(repeats.filter(record()) for _ in range(25))
    now_s[0] = logs.REPEAT_WINDOW_S
    later = record()

    assert passed == logs.REPEATS_MAX
    assert repeats.filter(later)
    assert logs.LineFormatter("x").format(later)[25:] == "INFO x again repeated=15"


def test_places_in_the_code_are_limited_apart_from_each_other() -> None:
    repeats = logs.Repeats(lambda: 0.0)
    records = [logging.LogRecord("x", 20, "f.py", n, "m", (), None) for n in range(2_000)]

    assert all(repeats.filter(record) for record in records)


def test_a_process_that_fails_says_so_in_one_line() -> None:
    program = "from headrace.telemetry import logs; logs.configure('quota'); {}['gone']"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.returncode == 1
    assert run.stderr[25:] == "CRITICAL quota ends error=KeyError: 'gone' where=<string>:1\n"


def test_a_task_that_fails_unheard_says_so_in_one_line() -> None:
    program = (
        "import asyncio, gc\nfrom headrace.telemetry import logs\nlogs.configure('quota')\n"
        "async def fail(): raise OSError('gone')\n"
        "async def main():\n    t = asyncio.create_task(fail())\n    await asyncio.sleep(0)\n"
        "    await asyncio.sleep(0)\n    del t\n    gc.collect()\nasyncio.run(main())"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stderr.count("\n") == 1
    assert "error=OSError: gone" in run.stderr
