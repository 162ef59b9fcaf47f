"""Every option of `sbatch`: the field of the job file it becomes, or what to use instead.

Rule: one line per option. An option with a `field` is translated; one that changes nothing here is
taken and said to do so (`unused`), and any other is refused by name with its `instead`. README's table
is made of this one.
"""

from __future__ import annotations

from typing import NamedTuple

NEEDED, OPTIONAL, NONE = "needed", "optional", "none"  # whether an option takes a value


class Option(NamedTuple):
    """One option: its letter, whether it takes a value, and what becomes of it."""

    name: str
    letter: str = ""
    value: str = NEEDED
    field: str = ""
    instead: str = ""
    unused: bool = False


POOL = "pools in the job file, or --partition"
NODE_GPUS = "--gpus-per-node"
WHOLE_NODE = "ask for all of a node's GPUs: --gpus-per-node=8"
NO_SOCKETS = "GPUs and cores are counted per node: --gpus-per-node, --cpus-per-task"
LATER = "submit it at that moment"
WATCH = "headrace events --job JOB, or submit with --wait"
ADMIN = "an admin's work: headrace node"
BINDING = "nothing: a job sees only its own GPUs"
TOPOLOGY = "topology: {required: rack} in a job file"
ACCOUNT = "nothing: jobs run as the account that the node maps the user to"

OPTIONS = (
    Option("account", "A", field="project"),
    Option("acctg-freq", instead="nothing: GPUs are sampled all the time", unused=True),
    Option("array", "a", field="array"),
    Option("batch", instead=POOL),
    Option("bb", instead="volumes: in a job file"),
    Option("bbf", instead="volumes: in a job file"),
    Option("begin", "b", instead=LATER),
    Option("chdir", "D", field="workdir"),
    Option("cluster-constraint", instead=POOL),
    Option("clusters", "M", instead="a context of the command line: --url"),
    Option("comment", instead="env: in a job file keeps what you want to remember", unused=True),
    Option("consolidate-segments", value=NONE, instead=TOPOLOGY),
    Option("constraint", "C", instead=f"{POOL}; a GPU's type: --gpus-per-node=H100:2", unused=True),
    Option("container", instead="image: in a job file"),
    Option("container-id", instead="image: in a job file"),
    Option("contiguous", value=NONE, instead=TOPOLOGY, unused=True),
    Option("core-spec", "S", instead=NO_SOCKETS),
    Option("cores-per-socket", instead=NO_SOCKETS),
    Option("cpu-freq", instead=ADMIN, unused=True),
    Option("cpus-per-gpu", field="resources.cpu"),
    Option("cpus-per-task", "c", field="resources.cpu"),
    Option("deadline", instead="--time"),
    Option("delay-boot", instead="nothing: nodes are not booted for jobs", unused=True),
    Option("dependency", "d", field="after"),
    Option(
        "distribution", "m", instead="nothing: ranks are dealt to the nodes in blocks", unused=True
    ),
    Option("error", "e", field="command"),
    Option("exclude", "x", instead=POOL),
    Option("exclusive", value=OPTIONAL, instead=WHOLE_NODE, unused=True),
    Option("export", field="env"),
    Option("export-file", instead="--export=NAME,OTHER"),
    Option("extra", instead=POOL),
    Option("extra-node-info", "B", instead=NO_SOCKETS),
    Option("get-user-env", value=OPTIONAL, instead="--export=NAME,OTHER", unused=True),
    Option("gid", instead=ACCOUNT),
    Option("gpu-bind", instead=BINDING, unused=True),
    Option("gpu-freq", instead=ADMIN),
    Option("gpus", "G", field="resources.gpus"),
    Option("gpus-per-node", field="resources.gpus"),
    Option("gpus-per-socket", instead=NODE_GPUS),
    Option("gpus-per-task", field="resources.gpus"),
    Option("gres", field="resources.gpus"),
    Option("gres-flags", instead=BINDING, unused=True),
    Option("help", "h", value=NONE, field="(help)"),
    Option("hint", instead=NO_SOCKETS, unused=True),
    Option("hold", "H", value=NONE, instead="headrace pause JOB, and headrace resume JOB"),
    Option("ignore-pbs", value=NONE, instead="nothing: #PBS lines are never read", unused=True),
    Option("input", "i", field="command"),
    Option("job-name", "J", field="name"),
    Option(
        "kill-on-invalid-dep",
        instead="nothing: a job whose dependency failed is refused, or ends with that reason",
        unused=True,
    ),
    Option("licenses", "L", instead="a limit of the project"),
    Option("mail-type", instead=WATCH, unused=True),
    Option("mail-user", instead=WATCH, unused=True),
    Option("mcs-label", instead="a project: what it runs is seen by its members alone"),
    Option("mem", field="resources.memory"),
    Option("mem-bind", instead=BINDING, unused=True),
    Option("mem-per-cpu", field="resources.memory"),
    Option("mem-per-gpu", field="resources.memory"),
    Option("mincpus", instead="--cpus-per-task"),
    Option("network", instead=ADMIN, unused=True),
    Option("nice", value=OPTIONAL, instead="--qos=low", unused=True),
    Option("no-kill", "k", value=OPTIONAL, instead="nodes: 2..8 in a job file", unused=True),
    Option("no-requeue", value=NONE, field="retry"),
    Option("nodefile", "F", instead=POOL),
    Option("nodelist", "w", instead=POOL),
    Option("nodes", "N", field="nodes"),
    Option("ntasks", "n", field="nodes"),
    Option("ntasks-per-core", instead="--ntasks-per-node", unused=True),
    Option("ntasks-per-gpu", field="command"),
    Option("ntasks-per-node", field="command"),
    Option("ntasks-per-socket", instead="--ntasks-per-node"),
    Option(
        "oom-kill-step", value=OPTIONAL, instead="retry: {on: [oom]} in a job file", unused=True
    ),
    Option("open-mode", instead="nothing: every attempt begins with an empty file", unused=True),
    Option("output", "o", field="command"),
    Option("overcommit", "O", value=NONE, instead="--cpus-per-task", unused=True),
    Option("oversubscribe", "s", value=NONE, instead="a share of a GPU: headrace run --gpus 0.5"),
    Option("parsable", value=NONE, field="(prints the id alone)"),
    Option("partition", "p", field="pools"),
    Option("power", instead=ADMIN, unused=True),
    Option("prefer", instead=POOL),
    Option("priority", instead="--qos=high"),
    Option("profile", instead="headrace describe JOB, and the traces", unused=True),
    Option("propagate", value=OPTIONAL, instead="ulimit in the script", unused=True),
    Option("qos", "q", field="priority"),
    Option("quiet", "Q", value=NONE, field="(prints nothing)"),
    Option("reboot", value=NONE, instead=ADMIN),
    Option("requeue", value=NONE, field="retry"),
    Option(
        "reservation", instead="nothing: a waiting gang gets a reservation by itself", unused=True
    ),
    Option("resv-ports", value=OPTIONAL, instead="$MASTER_PORT in the script", unused=True),
    Option("segment", instead=TOPOLOGY),
    Option("signal", field="checkpoint"),
    Option("sockets-per-node", instead=NO_SOCKETS),
    Option("spread-job", value=NONE, instead="the pool's placement: spread", unused=True),
    Option("stepmgr", value=NONE, instead="nothing: steps need no daemon", unused=True),
    Option("switches", instead=TOPOLOGY, unused=True),
    Option("test-only", value=NONE, field="(checks, submits nothing)"),
    Option("thread-spec", instead=NO_SOCKETS),
    Option("threads-per-core", instead=NO_SOCKETS, unused=True),
    Option("time", "t", field="max_duration"),
    Option("time-min", instead="--time"),
    Option("tmp", instead="volumes: in a job file"),
    Option("tres-bind", instead=BINDING, unused=True),
    Option("tres-per-task", instead="--gpus-per-task, --cpus-per-task"),
    Option("uid", instead=ACCOUNT),
    Option("usage", value=NONE, field="(help)"),
    Option("use-min-nodes", value=NONE, instead="--nodes with one number", unused=True),
    Option("verbose", "v", value=NONE, instead="headrace why JOB", unused=True),
    Option("version", "V", value=NONE, field="(version)"),
    Option("wait", "W", value=NONE, field="(waits for the end)"),
    Option(
        "wait-all-nodes",
        instead="nothing: a gang starts when all its nodes have started",
        unused=True,
    ),
    Option("wckey", instead="--account", unused=True),
    Option("wrap", field="command"),
)

BY_NAME = {option.name: option for option in OPTIONS}
BY_LETTER = {option.letter: option for option in OPTIONS if option.letter}


def table() -> str:
    """All of them as a Markdown table."""
    rows = ["| `sbatch` | here | |", "|---|---|---|"]
    for option in OPTIONS:
        names = f"`--{option.name}`" + (f" `-{option.letter}`" if option.letter else "")
        if option.unused:
            rows.append(
                f"| {names} | without effect | {option.instead.removeprefix('nothing: ')} |"
            )
        elif not option.field:
            rows.append(f"| {names} | no | {option.instead.removeprefix('nothing: ')} |")
        elif option.field.startswith("("):
            rows.append(f"| {names} | yes | {option.field[1:-1]} |")
        else:
            rows.append(f"| {names} | yes | `{option.field}` |")
    return "\n".join(rows)
