"""An example or two of every verb, shown by its `--help`; a test runs them all."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "headrace run --gpus 2 --workdir . -- python train.py --epochs 20",
        "headrace run -d --gpus H100:8 --nodes 4 -e DATE=2026-11-21 -- torchrun train.py",
    ),
    "submit": (
        "headrace submit job.yaml",
        "headrace submit --wait --key nightly-2026-11-21 job.yaml",
        "headrace submit --from notebook job.yaml",
    ),
    "sbatch": ("headrace sbatch --gpus-per-node=2 --time=1:00:00 train.sh",),
    "ps": ("headrace ps --watch", "headrace ps --state waiting -o json"),
    "describe": ("headrace describe hello",),
    "why": ("headrace why hello", "headrace why hello -o wide"),
    "logs": ("headrace logs -f hello --rank 0",),
    "outputs": ("headrace outputs digits -o results",),
    "exec": ("headrace exec hello", "headrace exec hello --rank 1 -- nvidia-smi"),
    "attach": ("headrace attach hello",),
    "port-forward": ("headrace port-forward hello 8888", "headrace port-forward hello 9000:8888"),
    "open": ("headrace open notebook --print",),
    "cancel": ("headrace cancel hello",),
    "pause": ("headrace pause hello", "headrace pause -d lr-sweep"),
    "resume": ("headrace resume hello",),
    "events": ("headrace events --job hello --since 10m", "headrace events -f --type gang."),
    "apply": ("headrace apply -f fleet.yaml",),
    "projects": ("headrace projects -o wide",),
    "usage": ("headrace usage --by project,user --since 7d",),
    "node": (
        "headrace node list",
        "headrace node token --uses 16 --expires 2h --auto-approve",
        "headrace node drain n1 --deadline 30m",
    ),
    "completion": ("source <(headrace completion bash)", "headrace completion fish | source"),
    "doctor": ("headrace doctor https://head:7400",),
    "pool": ("headrace pool list",),
    "volume": ("headrace volume list -o yaml",),
    "secret": ("headrace secret set WANDB_API_KEY < key.txt", "headrace secret list -p vision"),
    "publisher": (
        "headrace publisher create nightly-etl --project ads",
        "headrace publisher list",
        "headrace publisher delete nightly-etl --project ads",
    ),
    "webhook": ("headrace webhook list", "headrace webhook delete nightly -p ads"),
    "login": ("headrace login https://head:7400", "headrace login https://head:7400 --token -"),
    "context": ("headrace context list", "headrace context use local"),
    "whoami": ("headrace whoami",),
    "user": (
        "headrace user set ada --group vision-team",
        "headrace user set airflow --service --acts-for -p ads",
    ),
    "role": (
        "headrace role grant group:vision-team researcher --in vision",
        "headrace role list -p vision",
    ),
    "token": (
        "headrace token create --name ci --scope job.* --expires 90d -p ads",
        "headrace token revoke 5b1e0c1a",
    ),
    "erase": ("headrace erase ads --yes",),
    "rebuild": ("headrace rebuild",),
    "verify": ("headrace verify",),
    "up": ("headrace up --nodes 2 --gpus simulated:8xH100-80GB", "headrace up --detach"),
    "down": ("headrace down", "headrace down --delete-data"),
    "status": ("headrace status --check",),
}
