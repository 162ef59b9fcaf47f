"""What runs a batch script on a node: two small shell programs that travel as arguments.

Rule: the script is run as it is, by the interpreter its first line names, so that signals reach it
alone; the names it finds (`$SLURM_…`, `srun`) mean on this node what they mean in Slurm.
"""

from __future__ import annotations

# Arguments: srun's text, the script's text, the script's own arguments. It ends by becoming the
# script, so that a checkpoint signal meets whoever set a trap for it.
LAUNCHER = r"""set -eu
home=$(mktemp -d "${HEADRACE_STOP_REASON_FILE%/*}/sbatch.XXXXXX" 2>/dev/null || mktemp -d)
mkdir "$home/bin"
printf '%s' "$1" > "$home/bin/srun"
printf '%s' "$2" > "$home/slurm_script"
chmod 700 "$home/bin/srun" "$home/slurm_script"
shift 2
job=${HEADRACE_JOB_ID%%/*}
export PATH="$home/bin:$PATH"
export SLURM_SUBMIT_DIR="$PWD" SLURM_JOB_ID="$job" SLURM_JOBID="$job"
export SLURM_JOB_NAME="${BATCH_NAME:-${job%-*}}"
export SLURM_NODEID="$HEADRACE_NODE_RANK"
export SLURM_NNODES="$HEADRACE_NUM_NODES" SLURM_JOB_NUM_NODES="$HEADRACE_NUM_NODES"
export SLURM_NTASKS_PER_NODE="${BATCH_TASKS:-1}"
export SLURM_NTASKS=$((SLURM_NNODES * SLURM_NTASKS_PER_NODE))
export SLURM_NPROCS=$SLURM_NTASKS SLURM_TASKS_PER_NODE="$SLURM_NTASKS_PER_NODE"
if [ "$SLURM_NNODES" -gt 1 ]; then SLURM_TASKS_PER_NODE+="(x$SLURM_NNODES)"; fi
export SLURMD_NODENAME="$(hostname -s)"
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then export SLURM_ARRAY_JOB_ID="$job"; fi
if [ -n "${BATCH_ARRAY:-}" ]; then
  mapfile -t numbers < <(for range in $BATCH_ARRAY; do seq ${range//-/ }; done | sort -nu)
  SLURM_ARRAY_TASK_ID=${numbers[SLURM_ARRAY_TASK_ID]}
fi
filled() {
  local p=${1//%%/$'\1'} id=$job${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
  p=${p//%j/$id} p=${p//%J/$id} p=${p//%A/$job} p=${p//%a/${SLURM_ARRAY_TASK_ID:-}}
  p=${p//%x/$SLURM_JOB_NAME} p=${p//%n/$SLURM_NODEID} p=${p//%N/$(hostname -s)}
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

# Every node runs the script, so that srun has only this node's tasks to start: those of all nodes
# together are the step.
SRUN = r"""#!/bin/bash
here=$SLURM_NTASKS_PER_NODE nodes=$SLURM_NNODES total='' label=''
wrong() { echo "srun: $1: not inside a Headrace job" >&2; exit 2; }
number() { case $2 in ''|*[!0-9]*|0) echo "srun: $1: must be a number, not '$2'" >&2; exit 2;; esac; }
while [ $# -gt 0 ]; do
  case $1 in
    -n|-N|--ntasks|--nodes|--ntasks-per-node) option=$1 value=${2:-}; shift;;
    -n[0-9]*|-N[0-9]*) option=${1:0:2} value=${1:2};;
    --ntasks=*|--nodes=*|--ntasks-per-node=*) option=${1%%=*} value=${1#*=};;
    -l|--label) label=yes; shift; continue;;
    -u|--unbuffered|-K|--kill-on-bad-exit) shift; continue;;
    --) shift; break;;
    -*) wrong "$1";;
    *) break;;
  esac
  number "$option" "$value"
  case $option in
    -n|--ntasks) total=$value;;
    -N|--nodes) nodes=$value;;
    *) here=$value;;
  esac
  shift
done
if [ $# = 0 ]; then echo "srun: which command?" >&2; exit 2; fi
if [ "$nodes" -gt "$SLURM_NNODES" ]; then wrong "--nodes=$nodes with $SLURM_NNODES nodes"; fi
if [ -n "$total" ]; then
  if [ "$total" -gt $((nodes * here)) ]; then here=$(((total + nodes - 1) / nodes)); fi
else
  total=$((nodes * here))
fi
if [ "$SLURM_NODEID" -ge "$nodes" ]; then exit 0; fi
first=$((SLURM_NODEID * here)) count=$((total - SLURM_NODEID * here))
if [ "$count" -gt "$here" ]; then count=$here; fi
tasks=() code=0 run=()
if [ -n "${BATCH_SIGNAL:-}" ]; then run=(env --default-signal="$BATCH_SIGNAL"); fi
for ((local = 0; local < count; local++)); do
  export SLURM_LOCALID=$local SLURM_PROCID=$((first + local)) SLURM_STEP_NUM_TASKS=$total
  export SLURM_NTASKS=$total SLURM_STEP_NUM_NODES=$nodes
  if [ -n "$label" ]; then
    "${run[@]}" "$@" > >(sed -u "s/^/$SLURM_PROCID: /") 2> >(sed -u "s/^/$SLURM_PROCID: /" >&2) &
  else
    "${run[@]}" "$@" &
  fi
  tasks+=($!)
done
trap 'kill -TERM "${tasks[@]}" 2>/dev/null' TERM
trap : USR1 USR2
for task in "${tasks[@]}"; do
  status=0
  wait "$task" || status=$?
  while [ $status -gt 128 ] && kill -0 "$task" 2>/dev/null; do status=0; wait "$task" || status=$?; done
  if [ $status -gt $code ]; then code=$status; fi
done
exit $code
"""
