#!/bin/bash
# Slurm's commands inside a job that was written for it: srun, scontrol, squeue, sacct, sinfo, scancel,
# sbatch, by the name that this file is called by. Every node of the job runs the script, so that srun
# has only this node's tasks to start: those of all nodes together are the step. What concerns other
# jobs is asked of the platform by `headrace slurm`, where the job may speak to it.
# Source: the manual pages of Slurm 25.05.
me=${0##*/}
wrong() { echo "$me: $1" >&2; exit 2; }

# n[1-3,07],login -> one name a line
hostnames() {
  local list=$1, head part name first last n
  while [ -n "$list" ]; do
    head=${list%%[,\[]*}
    if [ "${list:${#head}:1}" = "[" ]; then
      part=${list#*\[} part=${part%%]*}
      list=${list#*]} list=${list#,}
      IFS=, read -ra parts <<< "$part"
      for part in "${parts[@]}"; do
        first=${part%-*} last=${part#*-}
        for ((n = 10#$first; n <= 10#$last; n++)); do printf '%s%0*d\n' "$head" ${#first} "$n"; done
      done
    else
      if [ -n "$head" ]; then echo "$head"; fi
      list=${list:${#head}} list=${list#,}
    fi
  done
}

# whether this is the job itself: its number, or that of its array and its task's
is_own() { case $1 in "$SLURM_JOB_ID"|"$HEADRACE_JOB_ID"|"$own_id") ;; *) return 1;; esac; }
own_id=$SLURM_JOB_ID
if [ -n "$SLURM_ARRAY_JOB_ID" ]; then own_id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID; fi

platform() {
  if [ -n "$HEADRACE_URL" ] && [ -n "$HEADRACE_TOKEN" ] && command -v headrace > /dev/null; then
    exec headrace slurm "$me" "$@"
  fi
  wrong "a job knows of itself alone; to ask about others it takes env: {HEADRACE_URL: …}, secrets: [HEADRACE_TOKEN] and the program headrace"
}

scontrol_() {
  case "$1 $2" in
    "show hostnames"|"show hostname") hostnames "${3:-$SLURM_JOB_NODELIST}";;
    "show hostlist"|"show hostlistsorted") echo "$3";;
    "show job"|"show jobs"|"show jobid")
      if [ -n "$3" ] && ! is_own "$3"; then platform "$@"; fi
      echo "JobId=$SLURM_JOB_ID JobName=$SLURM_JOB_NAME"
      echo "   UserId=$(id -un)($(id -u)) JobState=RUNNING Reason=None Dependency=(null)"
      echo "   Partition=$SLURM_JOB_PARTITION NodeList=$SLURM_JOB_NODELIST BatchHost=$SLURMD_NODENAME"
      echo "   NumNodes=$SLURM_JOB_NUM_NODES NumTasks=$SLURM_NTASKS CPUs/Task=${SLURM_CPUS_PER_TASK:-1}"
      echo "   Restarts=$((HEADRACE_ATTEMPT - 1)) WorkDir=$SLURM_SUBMIT_DIR";;
    "requeue "*)
      is_own "$2" || platform "$@"
      : > "$HEADRACE_REPORT_DIR/requeue";; # its end is not the last
    *) wrong "$*: not known here; show hostnames, show job and requeue are";;
  esac
}

squeue_() {
  local arguments=("$@") header=yes format='%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R' line
  while [ $# -gt 0 ]; do
    case $1 in
      -h|--noheader) header=;;
      -j|--jobs|--job) is_own "$2" || platform "${arguments[@]}"; shift;;
      -j*|--jobs=*|--job=*) line=${1#-j} line=${line#*=}; is_own "$line" || platform "${arguments[@]}";;
      -o|--format) format=$2; shift;;
      -o*|--format=*) format=${1#-o}; format=${format#--format=};;
      --me|-l|--long) ;;
      -u|--user) shift;;
      -u*|--user=*) ;;
      *) platform "${arguments[@]}";;
    esac
    shift
  done
  told() {
    local text=$format out='' spec width value
    while [[ $text =~ ^([^%]*)%(\.?)([0-9]*)([a-zA-Z])(.*)$ ]]; do
      out+=${BASH_REMATCH[1]} spec=${BASH_REMATCH[4]} width=${BASH_REMATCH[3]}
      local dot=${BASH_REMATCH[2]}; text=${BASH_REMATCH[5]}
      case $spec in
        i|A) value=$own_id; [ "$1" ] && value=JOBID;;
        P) value=$SLURM_JOB_PARTITION; [ "$1" ] && value=PARTITION;;
        j) value=$SLURM_JOB_NAME; [ "$1" ] && value=NAME;;
        u) value=$(id -un); [ "$1" ] && value=USER;;
        t) value=R; [ "$1" ] && value=ST;;
        T) value=RUNNING; [ "$1" ] && value=STATE;;
        M) value=$((SECONDS_RUN / 60)):$(printf %02d $((SECONDS_RUN % 60))); [ "$1" ] && value=TIME;;
        D) value=$SLURM_JOB_NUM_NODES; [ "$1" ] && value=NODES;;
        N|R) value=$SLURM_JOB_NODELIST; [ "$1" ] && value="NODELIST(REASON)";;
        *) value='';;
      esac
      if [ -n "$width" ] && [ -n "$dot" ]; then value=$(printf '%*.*s' "$width" "$width" "$value")
      elif [ -n "$width" ]; then value=$(printf '%-*.*s' "$width" "$width" "$value"); fi
      out+=$value
    done
    echo "$out$text"
  }
  SECONDS_RUN=$(($(date +%s) - ${SLURM_JOB_START_TIME:-$(date +%s)}))
  if [ -n "$header" ]; then told header; fi
  told ''
}

srun_() {
  local here=${SLURM_NTASKS_PER_NODE:-1} nodes=$SLURM_NNODES total='' label='' on='' each=$SLURM_GPUS_PER_TASK
  local out='' err='' export_='' at='' option value
  while [ $# -gt 0 ]; do
    value=
    case $1 in
      --) shift; break;;
      --*=*) option=${1%%=*} value=${1#*=};;
      -[nNcpJtAGwxmoeiDWrdM]?*) option=${1:0:2} value=${1:2};;
      *) option=$1;;
    esac
    case $option in
      -n|--ntasks|-N|--nodes|--ntasks-per-node|-w|--nodelist|-o|--output|-e|--error|-D|--chdir|--gpus-per-task|\
      -c|--cpus-per-task|-p|--partition|-J|--job-name|-t|--time|-A|--account|-G|--gpus|--gres|--gpus-per-node|\
      --mem|--mem-per-cpu|--mem-per-gpu|-m|--distribution|-W|--wait|--export|--open-mode|-i|--input|-r|--relative)
        if [ "$option" = "$1" ]; then value=${2-}; shift; fi;;
    esac
    case $option in
      -n|--ntasks) number "$option" "$value"; total=$value;;
      -N|--nodes) number "$option" "$value"; nodes=$value;;
      --ntasks-per-node) number "$option" "$value"; here=$value;;
      --gpus-per-task) each=$value;;
      -w|--nodelist) on=$value;;
      -o|--output) out=$value;;
      -e|--error) err=$value;;
      -D|--chdir) at=$value;;
      --export) export_=$value;;
      -l|--label) label=yes;;
      # without effect: tasks see all that the job has, are dealt to the nodes in blocks, write as they go
      -u|--unbuffered|-K|--kill-on-bad-exit|--exact|--exclusive|--overlap|-O|--overcommit|-s|--oversubscribe|\
      -v|--verbose|-q|--quiet|-Q|-k|--no-kill|-c|--cpus-per-task|-p|--partition|-J|--job-name|-t|--time|-A|\
      --account|-G|--gpus|--gres|--gpus-per-node|--mem|--mem-per-cpu|--mem-per-gpu|-m|--distribution|-W|--wait|\
      --cpu-bind|--gpu-bind|--mem-bind|--hint|--threads-per-core|--open-mode|--signal|--jobid|--job) ;;
      --mpi) case $value in none|pmi2|pmix*) ;; *) wrong "$1: not known here; framework: mpi in a job file runs mpirun";; esac;;
      -*) wrong "$1: not known here";;
      *) break;;
    esac
    shift
  done
  if [ $# = 0 ]; then wrong "which command?"; fi
  if [ "$nodes" -gt "$SLURM_NNODES" ]; then wrong "--nodes=$nodes: the job has $SLURM_NNODES"; fi
  local rank=$SLURM_NODEID
  if [ -n "$on" ]; then
    mapfile -t named < <(hostnames "$on")
    nodes=${#named[@]} rank=-1
    for ((n = 0; n < nodes; n++)); do if [ "${named[n]}" = "$SLURMD_NODENAME" ]; then rank=$n; fi; done
    if [ "$rank" -lt 0 ]; then exit 0; fi
  fi
  if [ -n "$total" ]; then
    if [ "$total" -lt "$nodes" ]; then nodes=$total; fi
    if [ "$total" -gt $((nodes * here)) ] || [ -n "$on" ]; then here=$(((total + nodes - 1) / nodes)); fi
  else
    total=$((nodes * here))
  fi
  if [ "$rank" -ge "$nodes" ]; then exit 0; fi
  local first=$((rank * here)) count=$((total - rank * here))
  if [ "$count" -gt "$here" ]; then count=$here; fi
  if [ -n "$at" ]; then cd "$at" || exit 2; fi
  unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK  # the node's, not a task's
  if [ -n "$export_" ]; then exported "$export_"; fi
  local tasks=() code=0 run=() local devices=()
  if [ -n "$BATCH_SIGNAL" ]; then run=(env --default-signal="$BATCH_SIGNAL"); fi
  if [ -n "$each" ]; then IFS=, read -ra devices <<< "$CUDA_VISIBLE_DEVICES"; each=${each##*:}; fi
  for ((local_ = 0; local_ < count; local_++)); do
    export SLURM_LOCALID=$local_ SLURM_PROCID=$((first + local_)) SLURM_STEP_NUM_TASKS=$total
    export SLURM_NTASKS=$total SLURM_NPROCS=$total SLURM_STEP_NUM_NODES=$nodes
    export SLURM_STEP_TASKS_PER_NODE="$here$([ "$nodes" = 1 ] || echo "(x$nodes)")"
    if [ -n "$each" ]; then
      CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${devices[*]:local_ * each:each}")
    fi
    started "$@"
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
}

number() { case $2 in ''|*[!0-9]*|0) wrong "$1: must be a number, not '$2'";; esac; }

# one task, with its output where it is to go
started() {
  if [ -n "$out" ]; then
    exec 3>> "$(filled "$out")"
    if [ -n "$err" ]; then exec 4>> "$(filled "$err")"; else exec 4>&3; fi
    "${run[@]}" "$@" >&3 2>&4 3>&- 4>&- &
    exec 3>&- 4>&-
  elif [ -n "$label" ]; then
    "${run[@]}" "$@" > >(sed -u "s/^/$SLURM_PROCID: /") 2> >(sed -u "s/^/$SLURM_PROCID: /" >&2) &
  else
    "${run[@]}" "$@" &
  fi
}

filled() {
  local p=${1//%%/$'\1'}
  p=${p//%t/$SLURM_PROCID} p=${p//%j/$own_id} p=${p//%J/$own_id} p=${p//%A/${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}
  p=${p//%a/$SLURM_ARRAY_TASK_ID} p=${p//%x/$SLURM_JOB_NAME} p=${p//%n/$SLURM_NODEID} p=${p//%N/$SLURMD_NODENAME}
  p=${p//%u/$(id -un)} p=${p//%s/0}
  mkdir -p "$(dirname -- "$p")"
  printf '%s' "${p//$'\1'/%}"
}

# --export=ALL,A=1: what tasks have in their environment
exported() {
  local word
  IFS=, read -ra words <<< "$1"
  for word in "${words[@]}"; do
    case $word in *=*) export "${word%%=*}=${word#*=}";; esac
  done
}

case $me in
  srun) srun_ "$@";;
  scontrol) scontrol_ "$@";;
  squeue) squeue_ "$@";;
  sinfo)
    if [ $# -gt 0 ]; then platform "$@"; fi
    printf '%s\n' "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST" \
      "${SLURM_JOB_PARTITION:--} up infinite $SLURM_JOB_NUM_NODES alloc $SLURM_JOB_NODELIST";;
  *) platform "$@";;
esac
