"""Units are kept alive, whatever ends them, and found again by their records."""

import asyncio
import os
import shutil
import signal
import sys

import pytest

from headrace.embedded import EmbeddedError, processes, supervisor
from headrace.embedded.ending import stop_together
from headrace.embedded.layout import Layout
from headrace.embedded.supervisor import Supervisor, shorten
from headrace.embedded.units import Unit, read_record, readiness, stop_recorded

DEADLINE_S = 60
WAITS = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
ENDS = [sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"]


@pytest.fixture
def layout(tmp_path):
    found = Layout(tmp_path / "data")
    found.create()
    return found


def unit(layout, name, command):
    return Unit(
        name,
        lambda: processes.spawn(command, log=layout.log(name)),
        lambda: True,
        lambda: stop_recorded(layout, name),
    )


async def until(condition):
    assert await asyncio.to_thread(processes.wait_until, condition, DEADLINE_S)


async def close(layout, supervisor, *names):
    supervisor.closing.set()
    await asyncio.to_thread(stop_together, layout, names)
    await supervisor.close()


def running(layout, name):
    record = read_record(layout, name)
    return record and record.process and processes.alive(record.process) and record


async def test_a_killed_unit_is_started_again_and_counted(layout, caplog):
    kept = Supervisor(layout)
    kept.keep(unit(layout, "waits", WAITS))
    await until(lambda: running(layout, "waits"))
    first = read_record(layout, "waits")
    os.kill(first.process.pid, signal.SIGKILL)
    await until(lambda: (now := running(layout, "waits")) and now.process != first.process)
    assert read_record(layout, "waits").restarts == 1
    assert f"waits ended pid {first.process.pid} status=-9 again_in_s=0.1" in caplog.text
    await close(layout, kept, "waits")
    assert not running(layout, "waits")


async def test_what_ends_again_and_again_is_tried_without_end_and_less_often(
    layout, caplog, monkeypatch
):
    monkeypatch.setattr(supervisor, "BACKOFF_S_MIN", 0.001)
    monkeypatch.setattr(supervisor, "BACKOFF_S_MAX", 0.004)
    kept = Supervisor(layout)
    kept.keep(unit(layout, "ends", ENDS))
    await until(lambda: len(caplog.records) >= 5)
    await close(layout, kept, "ends")
    lines = [record.getMessage() for record in caplog.records]
    assert all("status=3" in line for line in lines)
    assert [line.rpartition("=")[2] for line in lines[:2]] == ["0.0", "0.0"]
    assert read_record(layout, "ends").restarts >= 4


async def test_what_cannot_be_started_is_one_line_and_another_try(layout, caplog, monkeypatch):
    monkeypatch.setattr(supervisor, "BACKOFF_S_MIN", 0.001)
    tries = iter([EmbeddedError("no such thing"), OSError("nor that")])

    def start():
        for error in tries:
            raise error
        return processes.spawn(WAITS, log=layout.log("late"))

    kept = Supervisor(layout)
    kept.keep(Unit("late", start, lambda: True, lambda: None))
    await until(lambda: running(layout, "late"))
    said = [record.getMessage().partition(" again")[0] for record in caplog.records]
    assert said == ["late did not start error=no such thing", "late did not start error=nor that"]
    await close(layout, kept, "late")


@pytest.fixture
def no_room(layout):
    """A place at which the record of `waits` cannot be written."""
    place = layout.run / "waits.json"
    place.mkdir()
    (place / "in the way").touch()
    return place


async def test_a_unit_whose_record_has_no_room_is_kept_and_recorded_later(
    layout, no_room, caplog, monkeypatch
):
    monkeypatch.setattr(supervisor, "FILES_CHECK_S", 0.01)
    kept = Supervisor(layout)
    watching = asyncio.create_task(kept.watch_files())
    kept.keep(unit(layout, "waits", WAITS))
    said = "waits is not on record yet"
    await until(lambda: caplog.text.count(said))
    shutil.rmtree(no_room)
    await until(lambda: running(layout, "waits"))
    first = read_record(layout, "waits").process
    os.kill(first.pid, signal.SIGKILL)
    await until(lambda: (now := running(layout, "waits")) and now.process != first)
    await close(layout, kept, "waits")
    await watching


async def test_a_unit_without_a_record_ends_with_the_supervisor(layout, no_room):
    started = []

    def start():
        started.append(processes.spawn(WAITS, log=layout.log("waits")))
        return started[0]

    kept = Supervisor(layout)
    kept.keep(Unit("waits", start, lambda: True, lambda: None))
    await until(lambda: started)
    await asyncio.wait_for(kept.close(), DEADLINE_S)
    assert not processes.alive(started[0])


async def test_what_starts_while_the_supervisor_closes_is_ended_too(layout):
    kept = Supervisor(layout)
    starting, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def start():
        loop.call_soon_threadsafe(starting.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
        return processes.spawn(WAITS, log=layout.log("slow"))

    kept.keep(Unit("slow", start, lambda: True, lambda: stop_recorded(layout, "slow")))
    await starting.wait()
    closing = asyncio.create_task(kept.close())
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait_for(closing, DEADLINE_S)
    assert read_record(layout, "slow") is not None
    assert not running(layout, "slow")


def test_a_process_is_known_by_more_than_its_pid(layout):
    process = processes.spawn(WAITS, log=layout.log("x"))
    earlier = processes.Process(process.pid, process.start_ticks - 1, process.boot_id)
    other_boot = processes.Process(process.pid, process.start_ticks, "another boot")
    assert processes.alive(process)
    for stranger in (earlier, other_boot):
        assert not processes.alive(stranger)
        assert not processes.send(stranger, signal.SIGKILL)
    assert processes.alive(process)
    assert processes.end(process, (signal.SIGTERM, DEADLINE_S))


def test_a_zombie_does_not_run(layout):
    process = processes.spawn(ENDS, log=layout.log("x"))
    assert processes.wait_until(lambda: not processes.alive(process), DEADLINE_S)
    assert processes.identify(process.pid) == process, "nobody has reaped it yet"
    assert processes.reap(process) == 3


def test_what_ignores_sigterm_is_killed_at_the_deadline(layout):
    script = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    process = processes.spawn(
        [sys.executable, "-I", "-S", "-c", script], log=layout.log("stubborn")
    )
    assert processes.wait_until(lambda: layout.log("stubborn").read_text() == "\n", DEADLINE_S)
    assert not processes.end(process, (signal.SIGTERM, 0.05))
    assert not processes.alive(process)


def test_a_long_log_is_moved_aside_while_its_writer_goes_on(layout, monkeypatch):
    monkeypatch.setattr(supervisor, "LOG_BYTES_MAX", 10)
    log = layout.log("x")
    with log.open("ab", buffering=0) as writer:
        writer.write(b"much too much\n")
        shorten(log)
        writer.write(b"next\n")
        shorten(log)
    assert log.read_bytes() == b"next\n"
    assert log.with_suffix(".log.1").read_bytes() == b"much too much\n"


def test_nobody_answering_is_no_readiness(tmp_path):
    port_file = tmp_path / "x.port"
    assert readiness(port_file) == {}
    port_file.write_text("1\n")
    assert readiness(port_file) == {}
    port_file.write_text("banana\n")
    assert readiness(port_file) == {}
