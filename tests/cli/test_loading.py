"""What a verb loads before it asks anything: most of what a short one takes is loading.

Rule: the list is fixed, so that whoever makes it longer decides to.
"""

import re

import pytest
from tests.cli.program import accept, in_log
from tests.gateway.histories import admitted, finished, requested

CLIENT = {
    *("", ".asking", ".client", ".config", ".connection", ".entering", ".errors", ".model"),
    *(".people", ".protocol", ".reports", ".resuming", ".transport"),
}
EVERY_VERB = {
    *("headrace.scheduling", "headrace.scheduling.explanation"),
    *("headrace.cli.app", "headrace.cli.arguments", "headrace.cli.console", "headrace.cli.exits"),
    *(f"headrace.client{name}" for name in CLIENT),
}
BESIDE_THE_VERB = {  # whose own module Python does not time
    ("ps",): {"headrace.cli.output"},
    ("run", "--detach", "--", "true"): {"headrace.cli.submitting"},
    ("run", "--", "true"): {
        *("headrace.cli.submitting", "headrace.cli.follow", "headrace.cli.output"),
        "headrace.cli.waiting",
    },
}
SLOW = {
    *("asyncio", "hashlib", "inspect", "logging", "secrets", "shutil", "stringprep", "subprocess"),
    "tempfile",
}

_LOADED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)


@pytest.mark.parametrize("words", BESIDE_THE_VERB, ids=" ".join)
async def test_a_short_verb_loads_what_it_needs_and_no_more(world, start, words):
    await accept(world, "job.submit", job="hello-a")
    await in_log(world, requested(), admitted(), finished())
    program = await start(*words, PYTHONPROFILEIMPORTTIME="1")
    code, _, err = await program.end()
    loaded = set(_LOADED.findall(err))
    assert code == 0, err
    ours = {name for name in loaded if name.startswith("headrace.")}
    assert ours - {"headrace.cli", "headrace.cli.__main__"} == EVERY_VERB | BESIDE_THE_VERB[words]
    tops = {name.partition(".")[0] for name in loaded}
    assert {"rich", "yaml", "websockets", "cryptography"} & tops == set()
    assert SLOW & tops == set()
