"""The journal of reports: numbers given once, whatever happens to its file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.bus.agents import Report
from headrace.node_agent import journal_file
from headrace.node_agent.journal import BATCH_MAX, Header, Journal
from headrace.node_agent.journal_file import FileJournal
from headrace.node_agent.machine import AttemptKey

Open = Callable[..., Journal]


class InMemory:
    """Opens the same journal again and again, as if its process lived on."""

    def __init__(self) -> None:
        self.journal: Journal | None = None

    def __call__(self) -> Journal:
        if self.journal is None:
            self.journal = Journal(Header(incarnation="i1", boot="b1"))
        return self.journal


class OnDisk:
    """Opens the journal in a folder, each time as a new process would."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        self.made = itertools.count(1)

    def __call__(self, boot: str = "b1", granter: str = "g1") -> FileJournal:
        return FileJournal.open(
            self.path, boot=boot, granter=granter, new_incarnation=lambda: f"i{next(self.made)}"
        )


@pytest.fixture(params=["memory", "disk"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return InMemory() if request.param == "memory" else OnDisk(tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> OnDisk:
    return OnDisk(tmp_path)


def report(job: str, what: str = "started") -> Report:
    return Report(sequence=0, what=what, job=job, attempt=1, rank=0, project="p", at_us=5)


def said(reports: tuple[Report, ...]) -> list[tuple[int, str, str]]:
    return [(r.sequence, r.job, r.what) for r in reports]


def test_reports_are_numbered_in_order_and_kept_until_recorded(journal: Open) -> None:
    first = journal()
    for job in ("a", "b", "c"):
        first.add(report(job))

    settled = first.recorded(2)

    assert settled == [AttemptKey("a", 1, 0), AttemptKey("b", 1, 0)]
    assert said(journal().unrecorded()) == [(3, "c", "started")]
    assert journal().recorded(2) == []


def test_what_was_reported_is_known_until_it_is_forgotten(journal: Open) -> None:
    key = AttemptKey("a", 1, 0)
    first = journal()
    first.add(report("a"))
    first.add(report("a", "exited"))
    first.recorded(2)
    again = journal()
    known = again.reported(key)
    again.forget(key)

    assert (known.started, known.exited, known.settled) == (True, True, True)
    assert journal().attempts() == []


def test_a_number_is_never_given_twice_after_everything_was_forgotten(journal: Open) -> None:
    first = journal()
    first.add(report("a"))
    first.recorded(1)
    first.forget(AttemptKey("a", 1, 0))

    again = journal()
    again.add(report("b"))

    assert said(again.unrecorded()) == [(2, "b", "started")]


def test_a_batch_is_bounded_and_the_next_begins_behind_it(journal: Open) -> None:
    first = journal()
    for number in range(BATCH_MAX + 3):
        first.add(report(f"j{number}"))

    batch = first.unrecorded()

    assert len(batch) == BATCH_MAX
    assert len(first.unrecorded(after=batch[-1].sequence)) == 3


def test_an_answer_beyond_what_was_said_is_taken_for_what_was_said(journal: Open) -> None:
    first = journal()
    first.add(report("a"))

    first.recorded(900)

    assert first.recorded_through == 1


def test_what_was_obeyed_is_remembered(journal: Open) -> None:
    first = journal()
    first.take(2, 77)
    first.reboot(50)

    again = journal()

    assert (again.taken, again.rebooted_at) == ((2, 77), 50)


def test_a_torn_last_line_is_cut_off_and_the_numbers_go_on(disk: OnDisk) -> None:
    disk().add(report("a"))
    with disk.path.open("ab") as file:
        file.write(b'{"report":{"sequence":2,"wh')

    again = disk()
    again.add(report("b"))

    assert again.incarnation == "i1"
    assert said(disk().unrecorded()) == [(1, "a", "started"), (2, "b", "started")]


@pytest.mark.parametrize("damage", [b"\0" * 50, b"garbage\n", b'{"report": 1}\n'])
def test_a_damaged_file_begins_anew_and_says_again_what_is_owed(
    disk: OnDisk, damage: bytes
) -> None:
    first = disk()
    for job in ("a", "b"):
        first.add(report(job))
    first.recorded(1)
    with disk.path.open("ab") as file:
        file.write(damage + b"\n" + b"{}\n")

    again = disk()

    assert (again.incarnation, again.is_new) == ("i2", True)
    assert said(again.unrecorded()) == [(1, "b", "started")]
    assert again.reported(AttemptKey("a", 1, 0)).settled


def test_a_missing_file_begins_anew(disk: OnDisk) -> None:
    disk().add(report("a"))
    disk.path.unlink()

    assert disk().incarnation == "i2"


def test_an_incarnation_is_new_until_a_document_spoke_to_it(disk: OnDisk) -> None:
    assert [disk().is_new, disk().is_new] == [True, True]
    disk().take(1, 5)

    assert (disk().is_new, disk(boot="b2").is_new, disk(boot="b2").taken) == (False, True, (1, 5))


def test_another_boot_is_another_incarnation_that_owes_what_was_owed(disk: OnDisk) -> None:
    first = disk()
    for job in ("a", "b", "c"):
        first.add(report(job))
    first.recorded(2)
    first.take(3, 40)

    again = disk(boot="b2")
    again.add(report("b", "exited"))

    assert (again.incarnation, again.taken) == ("i2", (3, 40))
    assert said(again.unrecorded()) == [(1, "c", "started"), (2, "b", "exited")]
    assert said(disk(boot="b2").unrecorded()) == [(1, "c", "started"), (2, "b", "exited")]
    assert disk(boot="b2").reported(AttemptKey("a", 1, 0)).started


def test_another_platform_counts_its_documents_from_the_start(disk: OnDisk) -> None:
    disk().take(9, 900)

    assert disk(granter="g2").taken == (0, 0)


def test_the_file_is_rewritten_before_it_grows_without_end(
    disk: OnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_file, "REWRITE_LINES", 50)
    journal = disk()
    for number in range(1, 500):
        journal.add(report(f"j{number}"))
        journal.recorded(number)
        journal.forget(AttemptKey(f"j{number}", 1, 0))

    assert len(disk.path.read_bytes().splitlines()) <= 60
    disk().add(report("last"))
    assert said(disk().unrecorded()) == [(500, "last", "started")]


def test_a_full_disk_costs_no_report(
    disk: OnDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = disk()
    journal.add(report("a"))
    real = journal._file
    journal._file = -1  # writing fails as it does on a full disk
    journal.add(report("b"))
    journal._file = real
    journal.add(report("c"))

    assert [r.job for r in disk().unrecorded()] == ["a", "b", "c"]
    assert "journal not written" in caplog.text
