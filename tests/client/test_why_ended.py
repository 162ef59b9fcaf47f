"""Why a job did not succeed, in one clause."""

import pytest

from headrace.client.model import why_ended


@pytest.mark.parametrize(
    ("reason", "message", "why"),
    [
        ("error", "exit code 3", ""),
        ("error", "exit code 3; out of memory on GPU-0", "out of memory on GPU-0"),
        ("timeout", "stopped: timeout", "timeout"),
        ("out-of-memory", "it held 60 GiB", "out-of-memory: it held 60 GiB"),
    ],
)
def test_what_the_outcome_and_the_code_do_not_say_is_said(reason, message, why):
    assert why_ended(reason, message) == why
