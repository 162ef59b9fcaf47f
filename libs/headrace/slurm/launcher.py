"""What runs a batch script on a node: a small shell program that travels as an argument.

Rule: the script is run as it is, by the interpreter its first line names, so that signals reach it
alone. The names it finds (`$SLURM_…`) and the commands (`srun`, `scontrol`, …) are the node's agent's:
`framework: slurm`.
"""

from __future__ import annotations

# Arguments: the script's text, the script's own arguments. It ends by becoming the script, so that a
# checkpoint signal meets whoever set a trap for it.
LAUNCHER = r"""set -eu
home=$(mktemp -d "${HEADRACE_STOP_REASON_FILE%/*}/sbatch.XXXXXX" 2>/dev/null || mktemp -d)
printf '%s' "$1" > "$home/slurm_script"
chmod 700 "$home/slurm_script"
shift
job=${HEADRACE_JOB_ID%%/*}
export SLURM_SUBMIT_DIR="$PWD" SLURM_JOB_NAME="${BATCH_NAME:-${job%-*}}"
export SLURM_JOB_ACCOUNT="${HEADRACE_PROJECT:-}" SLURM_JOB_USER="$(id -un)" SLURM_CLUSTER_NAME=headrace
export SLURM_JOB_START_TIME="$(date +%s)" SLURM_RESTART_COUNT=$((${HEADRACE_ATTEMPT:-1} - 1))
export SLURM_NTASKS_PER_NODE="${BATCH_TASKS:-1}"
export SLURM_NTASKS=$((SLURM_NNODES * SLURM_NTASKS_PER_NODE))
export SLURM_NPROCS=$SLURM_NTASKS SLURM_TASKS_PER_NODE="$SLURM_NTASKS_PER_NODE"
if [ "$SLURM_NNODES" -gt 1 ]; then SLURM_TASKS_PER_NODE+="(x$SLURM_NNODES)"; fi
if [ -n "${BATCH_ARRAY:-}" ]; then
  mapfile -t numbers < <(for range in $BATCH_ARRAY; do seq ${range//-/ }; done | sort -nu)
  export SLURM_ARRAY_TASK_ID=${numbers[SLURM_ARRAY_TASK_ID]}
fi
own=$SLURM_JOB_ID
if [ -n "${SLURM_ARRAY_JOB_ID:-}" ]; then own=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID; fi
filled() {
  local p=${1//%%/$'\1'}
  p=${p//%j/$SLURM_JOB_ID} p=${p//%J/$own} p=${p//%A/${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}
  p=${p//%a/${SLURM_ARRAY_TASK_ID:-}} p=${p//%x/$SLURM_JOB_NAME} p=${p//%n/$SLURM_NODEID}
  p=${p//%N/$SLURMD_NODENAME}
  p=${p//%u/$(id -un)} p=${p//%s/batch}
  mkdir -p "$(dirname -- "$p")"
  printf '%s' "${p//$'\1'/%}"
}
kept() { trap '' USR1 USR2 TERM INT HUP; exec tee -- "$1"; }
out=${BATCH_OUTPUT:-} err=${BATCH_ERROR:-}
if [ -n "$out" ]; then out=$(filled "$out"); fi
if [ -n "$err" ]; then err=$(filled "$err"); fi
if [ -n "${BATCH_INPUT:-}" ]; then exec < "$(filled "$BATCH_INPUT")"; fi
if [ -n "$err" ] && [ "$err" != "$out" ]; then exec 2> >(kept "$err" >&2); fi
if [ -n "$out" ]; then exec > >(kept "$out"); fi
if [ -n "$out" ] && { [ -z "$err" ] || [ "$err" = "$out" ]; }; then exec 2>&1; fi
if [ -n "${BATCH_SIGNAL:-}" ]; then trap '' "$BATCH_SIGNAL"; fi
exec "$home/slurm_script" "$@"
"""
