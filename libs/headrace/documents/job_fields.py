"""What each field of a job file means, in a sentence or two: what `headrace explain` shows.

Rule: every field of `JobFile` and its parts is here, by its path with dots, and nothing else; a test
compares them. Of a field whose default is no value it says what is so then.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.documents.job_file import JobFile
from headrace.documents.shape import Part

ROLE = "NAME"  # stands for a role's name in a path

TEXTS = {
    "type": "training (the default) or workspace: an application that is opened in a browser.",
    "name": "Lower-case letters, digits and hyphens, at most 41; need not be unique. The job's id is "
    "this and a few letters.",
    "project": "Whose quota it uses and who may see it; else that of your context.",
    "template": "A template whose fields hold where this file says none (headrace template list).",
    "from": "Another job of the project, whose folder, setup, image and volumes are taken over where "
    "this file has none.",
    "command": "A list is run as it is; text is run by bash, which ends at the first failure.",
    "setup": "Run once per node before each attempt, like command.",
    "framework": "pytorch, jax, tensorflow, mpi, …: whose environment variables are set. By default "
    "all that do not contradict each other.",
    "nodes": "How many workers at once, each on a node of its own: 2, or 2..8 to grow and shrink.",
    "resources": "What each node is asked for.",
    "resources.gpus": "2, 0.5 (a share), H100:8, A100:80GB:2, 24GB (at least), 1g.10gb:1 (MIG), or a "
    "list in order of preference.",
    "resources.gpu_memory": "This much memory of one GPU, such as 20GB, instead of a share in gpus.",
    "resources.cpu": "Cores, such as 4 or 0.5.",
    "resources.memory": "Main memory with its unit, such as 16GB or 16GiB.",
    "resources.shm": "The size of /dev/shm in a container, such as 8GB.",
    "processes_per_node": "How often command is started on each node: 1 (the default), another "
    "number, or per-gpu, with RANK and LOCAL_RANK set.",
    "env": "Variables. One without a value is copied from your shell. They are recorded: what is "
    "secret goes under secrets.",
    "secrets": "Names of secrets of the project (headrace secret list), set as variables.",
    "workdir": "A folder here that travels with the job, git+https://host/repo@COMMIT, or an absolute "
    "path on the nodes.",
    "image": "A container image to run in; needs nodes with a container engine.",
    "python": "The Python that command finds first, such as 3.12, without an image.",
    "volumes": "NAME:/path[:ro], or job/JOB:/path for what an earlier job left in its outputs.",
    "outputs": "Paths below the working directory that are kept when it ends (headrace outputs).",
    "array": "0..99 runs it a hundred times, ${{ job.index }} being the index; 0..99%8 eight at a time.",
    "sweep": "The same command with other parameters each time (headrace sweep show).",
    "sweep.method": "grid (every combination), random (drawn), or list (as written).",
    "sweep.params": "By name a list of values, or a distribution such as {log_uniform: [1e-5, 0.1]}.",
    "sweep.trials": "How many are drawn, for random.",
    "sweep.seed": "Draws the same trials again; else they are drawn anew each time.",
    "sweep.parallel": "At most so many at a time; else all that fit.",
    "sweep.stop_after_failures": "Ends the sweep after so many trials have failed; else none does.",
    "sweep.objective": "What trials are compared by.",
    "sweep.objective.metric": "A value that they report: headrace.client.report(accuracy=…).",
    "sweep.objective.goal": "max or min: of which more or less is better.",
    "priority": "very-low, low, medium-low, medium (the default), medium-high, high, very-high: its "
    "order within its project.",
    "preemptibility": "preemptible (a training's default), semi-preemptible (its minimum of nodes "
    "stays) or non-preemptible (within the project's quota).",
    "pools": "Only there, in order of preference; else the project's own (headrace pool list).",
    "topology": "How near to each other its nodes are to be.",
    "topology.required": "A level, such as rack, of which all nodes are in one, or it waits.",
    "topology.preferred": "Likewise, if that is possible.",
    "max_duration": "It is ended after so long: 90s, 15m, 8h, 3d.",
    "checkpoint": "How it saves itself before it is stopped.",
    "checkpoint.dir": "Where to; the default lives as long as the job: $HEADRACE_CHECKPOINT_DIR.",
    "checkpoint.signal": "What asks it to, such as USR1 (the default) or TERM.",
    "checkpoint.grace": "How long it has then (60s).",
    "on_disconnect": "keep (the default): it runs on while its node is not heard; {replace_after: "
    "5m}: it is ended there and run elsewhere.",
    "allow_plain_secret": "Take names in env that look like credentials.",
    "retry": "After which ends it is tried again; else after none but the platform's own doing.",
    "retry.on": "Any of node-lost, oom, error, …",
    "retry.attempts": "How many it has in all (3).",
    "retry.backoff": "How long it rests before the second, and twice as long before each further one.",
    "after": "Jobs that end first: a list of {job: NAME or id} or {key: IDEMPOTENCY-KEY}, with state: "
    "succeeded (the default), failed or finished.",
    "roles": "Workers that differ, by a name of yours for each kind.",
    f"roles.{ROLE}.nodes": "How many of this kind: 1, or 2..6 to grow and shrink.",
    f"roles.{ROLE}.resources": "What each of them is asked for, as for the whole job.",
    f"roles.{ROLE}.resources.gpus": "As resources.gpus.",
    f"roles.{ROLE}.resources.gpu_memory": "As resources.gpu_memory.",
    f"roles.{ROLE}.resources.cpu": "As resources.cpu.",
    f"roles.{ROLE}.resources.memory": "As resources.memory.",
    f"roles.{ROLE}.resources.shm": "As resources.shm.",
    f"roles.{ROLE}.command": "What they run; else the job's command.",
    f"roles.{ROLE}.processes_per_node": "As processes_per_node.",
    "succeeds_when": "The role whose end is the job's; else all have to end.",
    "app": "Of a workspace: jupyter, vscode, or {command: …, port: …}.",
    "idle": "What happens to a workspace that nobody uses.",
    "idle.for": "After how long, such as 1h.",
    "idle.action": "stop (the default).",
}


def fields_of(kind: type[Part] = JobFile, path: str = "") -> Iterator[str]:
    """The paths of all fields that are built, in order, a part before its own."""
    for name in kind.__struct_encode_fields__:
        if name in kind.not_yet:
            continue
        yield f"{path}{name}"
        if name in kind.parts:
            yield from fields_of(kind.parts[name], f"{path}{name}.")
        if name in kind.each:
            yield from fields_of(kind.each[name], f"{path}{name}.{ROLE}.")
