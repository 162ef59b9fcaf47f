"""A full disk is no failure of the gateway: who sends something is told, and may send it again."""

import errno
import os

import pytest

from headrace.bundles.manifest import name_of
from headrace.bundles.objects import Objects
from headrace.gateway.answering import failure_of


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_and_may_be_tried_again(code):
    status, answer, again_after_s = failure_of(OSError(code, os.strerror(code)), "/v1/objects")
    assert status == 503
    assert "disk is full" in answer.message
    assert again_after_s > 0


def test_half_a_content_takes_no_room_of_a_full_disk(tmp_path, monkeypatch):
    objects, data = Objects(tmp_path), os.urandom(100)

    def full(_file, _data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        objects.put(name_of(data), data)
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    objects.put(name_of(data), data)
    assert objects.has(name_of(data))
