"""What agent, launcher and shim say to each other, over one socket and in an attempt's folder.

Rule: the folder is the truth; lines on the socket only make it quick. Answers are JSON.

To the launcher: `start {...}` (see `Start`; the launcher reads it, which has read others before: in a
process that was just forked, what reading touches is copied first), and `{"quit": true}`. From it: first `{"launcher": VERSION,
"pid": n}`, then per start `{"forked": FOLDER, "pid": n}` or `{"refused": FOLDER, "why": text}`, and
from the shim itself `{"started": FOLDER, "at_us": n}`.
"""

import json
from typing import Any

VERSION = 7  # another version is asked to quit and replaced; its shims are not touched
SESSIONS_SINCE = 7  # shims of an earlier version start no programs beside a worker
START = b"start"
LINE_BYTES_MAX = 4_194_304  # one start: the bus carries no launch larger than this
QUIT = b'{"quit": true}'  # to a launcher of any version
CONNECTIONS_MAX = 8  # the agent, one that replaces it, and the operator's stop

SOCKET = "launcher.sock"  # in the node's folder, as are the next two
LAUNCHER_LOCK = "launcher.lock"
LAUNCHER_LOG = "launcher.log"
LEASE = "lease"  # written by the agent, read by shims: see `lease_line`
HOMES = "homes"  # homes/<uid>/ is the home of an account that the machine knows nothing of
ATTEMPTS = "attempts"  # attempts/<job>.<attempt>.<rank>/ holds the rest

INTENT = "intent.json"  # written before anything is started, and locked by the shim while it lives;
# a second line, `{"at_us", "pids"}`, is added when the worker's processes run
EXIT = "exit.json"  # written once, when nothing of the attempt is left
STOP = "stop.json"  # written by the agent: `{"reason", "grace_s", "signal"}`, then the shim gets
# SIGTERM
PAUSE = "pause.json"  # written by the agent: see `pausing.record`
STOP_REASON = "stop-reason"  # what the worker reads to learn why it is asked to end
WORK = "work"  # where the command runs unless it has a folder of its own
OUTPUT = "output"
INPUTS = "inputs"  # what earlier jobs left behind, to be mounted: the node's own
REPORTS = "reports"  # what the program says about itself: see `worker_reports`; and see `socket_of`
CHECKPOINT = (
    f"{REPORTS}/checkpoint"  # where a program saves itself that says nothing else; the next
)
# attempt has it too, wherever it runs
REQUEUE = f"{REPORTS}/requeue"  # a file that the job makes: this end of it is not to be its last
SESSIONS = "sessions"  # sessions/<id>/: a program that somebody runs beside the worker

MARKER = "HEADRACE_ATTEMPT_KEY"  # in the environment of everything an attempt starts
DOWN = "down"  # why everything on a node ends
CHECKPOINT_GRACE_S_MAX = 120  # then, for who saves itself: `headrace down` waits a little longer
GRACE_S = 10.0  # between SIGTERM and SIGKILL, when nobody says otherwise
OUTPUT_BYTES_MAX = 1_073_741_824  # kept of one process's output, unless the agent says otherwise
OUTPUT_HEAD_BYTES = 1_048_576  # of which this much is always the beginning


Start = dict[str, Any]
"""`folder` (relative to the node's), `job`, `attempt`, `rank`, `project`, `traceparent`, `marker`,
`command`, `setup` (see `setting_up`), `cwd` (a folder of the node's, or ""), `tree`, `moves`, `links`,
`outputs` (see `Workplace`), `env`, `processes` (each process's own env), `files` (by path in the folder,
`[mode, content]`), `meant` (what is known of `intent.json` before, as JSON), `grace_s`,
`checkpoint_signal`, `checkpoint_grace_s`, `max_duration_s`, `replace_after_s`, `output_bytes_max`, `journal` (a path
or ""), `devices` (`uuid:milli` each), `enforcement`, `exhausted` (words that say that a device has no
memory left), `confinement` (see there)."""


def socket_of(port: "int | str") -> str:
    """Where, in an attempt's folder, a program may listen instead of at this port of the machine."""
    return f"{REPORTS}/{port}.sock"


def greeting_line(pid: int) -> bytes:
    """The first that a launcher says."""
    return b'{"launcher": %d, "pid": %d}\n' % (VERSION, pid)


def forked_line(folder: str, pid: int) -> bytes:
    """The launcher has a shim for this folder. Folders' names need no escaping (`folders.name_of`)."""
    return b'{"forked": "%b", "pid": %d}\n' % (folder.encode(), pid)


def started_line(folder: str, at_us: int) -> bytes:
    """The worker's processes run."""
    return b'{"started": "%b", "at_us": %d}\n' % (folder.encode(), at_us)


def refused_line(folder: str, why: str, reason: str) -> bytes:
    """Nothing will run, and nothing is written down of it; `reason` is the end's."""
    return json.dumps({"refused": folder, "why": why, "reason": reason}).encode() + b"\n"


def lease_line(boot: str, from_ns: int) -> bytes:
    """The node's lease in its file, always as long: the boot it is of, and since when it counts by
    `CLOCK_BOOTTIME`, twice, so that half a line cannot pass for one.
    """
    return f"{boot} {from_ns:020} {from_ns:020}\n".encode()


def lease_of(line: bytes, boot: str) -> int:
    """Since when the lease in this line counts; 0 when it is none of this boot."""
    words = line.split()
    is_whole = len(words) == 3 and words[0] == boot.encode() and words[1] == words[2]
    return int(words[1]) if is_whole and words[1].isdigit() else 0
