"""What each command's `--help` gives as an example does what it says, on one platform in one go."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.app import VERBS
from headrace.cli.examples import EXAMPLES

# What needs another machine, a terminal, or would end the platform: their own tests run these.
ELSEWHERE = ("up", "down", "attach", "port-forward", "doctor", "init", "login", "logout")
FIRST = ("apply", "run", "submit", "sbatch")
LAST = ("webhook", "cancel", "erase", "verify")
EXAMPLE_S_MAX = 60

FILES = {
    "train.py": "print('trained')\n",
    "train.sh": "#!/bin/sh\necho trained\n",
    "job.yaml": "name: nightly\ncommand: [echo, trained]\nresources: {gpus: 1}\n",
    "fleet.yaml": """
type: project
name: ads
---
type: project
name: vision
---
type: project
name: trial
---
type: template
name: ddp
job: {resources: {gpus: 2}}
""",
    "key.txt": "secret\n",
    "digits.yaml": "name: digits\ncommand: echo trained > model\noutputs: [model]\n",
    "notebook.yaml": """
type: workspace
name: notebook
app: {command: exec python3 -m http.server --bind 127.0.0.1 "$HEADRACE_APP_PORT"}
""",
}
SLEEP = ("sleep", "600")
WELL = (0, 124)  # done, or ended by `timeout`
OWN = "verify|status"  # these look at a data dir
REFUSED = {  # what names something that is not here, and what is said of it
    "headrace delete node n3": "no such node",
    "headrace exec hello --rank 1 -- nvidia-smi": "nvidia-smi",
    "headrace token create --name ci --scope job.* --expires 90d -p ads": "is the platform's own",
    "headrace token revoke 5b1e0c1a": "no token 5b1e0c1a is known",
    "headrace webhook delete nightly -p ads": "does not exist",
}


def examples():
    """Every example that can be run here: what makes things first, what ends them last."""
    verbs = [verb for verb in VERBS if verb not in (*FIRST, *LAST)]
    order = (*FIRST, *verbs, *LAST)
    return [
        each
        for verb in order
        if verb not in ELSEWHERE
        for each in EXAMPLES[verb]
        if "| source" not in each
    ]


def bounded(example):
    """The example as it is run: what would go on for ever is ended soon."""
    endless = re.search(r" (-f|--watch)\b", example) and " apply " not in example
    return f"timeout -s INT 2 {example}" if endless else example


@pytest.mark.readme
@pytest.mark.timeout(900)
def test_the_examples_run(new_platform, tmp_path):
    platform = new_platform("--nodes", "2", "--gpus", "simulated:8xH100-80GB")
    platform.wait_ready()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for name in ("hello", "lr-sweep"):  # for those that look at one
        platform.headrace("run", "-d", "--name", name, "--nodes", "2", "--gpus", "1", "--", *SLEEP)
    platform.headrace("submit", "--wait", str(tmp_path / "digits.yaml"))
    notebook = platform.headrace("submit", str(tmp_path / "notebook.yaml")).stdout.split()[0]
    client = platform.client()
    platform.wait(lambda: client.job(notebook).job.state == "running")
    wrong = []
    for example in examples():
        here = re.sub(
            f"headrace ({OWN})", rf"\g<0> --data-dir {platform.data_dir}", bounded(example)
        )
        done = subprocess.run(
            ["/bin/bash", "-c", here],
            cwd=tmp_path,
            env={**platform.env, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=EXAMPLE_S_MAX,
        )
        said = f"{done.stdout}{done.stderr}"
        is_well = done.returncode in WELL or (example in REFUSED and REFUSED[example] in said)
        if not is_well or "Traceback" in said:
            wrong.append(f"$ {example}\n{said[-500:]}[{done.returncode}]")
    assert not wrong, "\n".join(wrong)
