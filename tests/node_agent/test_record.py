"""What a shim writes of an attempt's end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headrace.node_agent.supervision.protocol import EXIT, INTENT
from headrace.node_agent.supervision.record import Record


def test_an_end_is_json_whatever_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    intent = os.open(INTENT, os.O_RDWR | os.O_CREAT)
    message = 'cannot start: "a\\b\n\t\x00é\U0001f600\udc80": {"exit_code": 0}, '
    end = {"reason": "start-failed", "exit_code": 126, "message": message, "process": -1}
    end |= {"processes": [{"process": 0, "exit_code": 1}, {"process": 1, "exit_code": 2}], "no": []}

    Record(intent).ended(end)
    os.close(intent)

    assert json.loads(Path(EXIT).read_bytes()) == end
