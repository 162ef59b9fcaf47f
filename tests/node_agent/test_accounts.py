"""The range of accounts that are for jobs alone: free on this machine, and noted where its tools look."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from headrace.node_agent.isolation.accounts import (
    COUNT,
    FIRST,
    Accounts,
    NoAccount,
    is_reserved,
    lack_of,
    reserve,
)

LAST = FIRST + COUNT - 1


@pytest.mark.parametrize(
    ("table", "line", "found"),
    [
        ("passwd", f"eve:x:{FIRST}:1::/:/bin/sh", f"eve ({FIRST}, in"),
        ("passwd", f"eve:x:{LAST}:1::/:/bin/sh", f"eve ({LAST}, in"),
        ("group", f"eves:x:{FIRST + 1}:", f"eves ({FIRST + 1}, in"),
        ("subuid", f"eve:{LAST}:65536", f"a range of eve (from {LAST}, in"),
        ("subgid", "eve:1000:4000000000", "a range of eve (from 1000, in"),
    ],
)
def test_a_range_in_which_somebody_lies_is_not_used(
    tmp_path: Path, table: str, line: str, found: str
) -> None:
    (tmp_path / table).write_text(f"root:x:0:0::/root:/bin/sh\n{line}\n")
    assert lack_of(FIRST, etc=tmp_path).startswith(found)
    with pytest.raises(NoAccount, match="HEADRACE_NODE_ACCOUNTS"):
        reserve(FIRST, tmp_path)
    assert line in (tmp_path / table).read_text()


def test_who_is_beside_the_range_is_not_in_it(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text(f"a:x:{FIRST - 1}:1::/:/bin/sh\nb:x:{LAST + 1}:1::/:/bin/sh\n")
    (tmp_path / "subuid").write_text(f"a:{FIRST - 9}:9\nb:{LAST + 1}:9\nbad line\nc:x:y\n")
    assert lack_of(FIRST, etc=tmp_path) == ""


def test_the_range_is_noted_once_for_users_and_groups(tmp_path: Path) -> None:
    (tmp_path / "subuid").write_text("ada:100000:65536\n")
    assert not is_reserved(FIRST, tmp_path)
    for _ in range(2):
        reserve(FIRST, tmp_path)
    assert is_reserved(FIRST, tmp_path)
    line = f"headrace:{FIRST}:{COUNT}\n"
    assert (tmp_path / "subuid").read_text() == f"ada:100000:65536\n{line}"
    assert (tmp_path / "subgid").read_text() == line


def test_accounts_that_a_container_does_not_have_cannot_be_used(tmp_path: Path) -> None:
    mapped = tmp_path / "uid_map"
    mapped.write_text("         0     100000      65536\n")
    assert "user namespace has no accounts" in lack_of(FIRST, etc=tmp_path, mapped=str(mapped))
    mapped.write_text("         0          0 4294967295\n")
    assert lack_of(FIRST, etc=tmp_path, mapped=str(mapped)) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="accounts are root's to give")
def test_no_job_is_in_a_group_that_is_as_good_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is in group docker starts containers that are root."""
    engine, others = tmp_path / "engine.sock", 54_321
    engine.touch()
    os.chown(engine, -1, others)
    engine.chmod(0o660)
    monkeypatch.setattr(os, "getgrouplist", lambda _name, group: [group, 7_000, others, 0])
    nobody = pwd.getpwnam("nobody")
    found = Accounts(users={"ada": "nobody"}, engine=str(engine)).of("ada", 1)
    assert found == (nobody.pw_uid, nobody.pw_gid, [nobody.pw_gid, 7_000])
    os.chown(engine, -1, nobody.pw_gid)
    with pytest.raises(NoAccount, match="as good as root"):
        Accounts(users={"ada": "nobody"}, engine=str(engine)).of("ada", 1)
