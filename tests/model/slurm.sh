#!/usr/bin/env bash
# slurm.sh COMMAND...: runs it where `srun` starts what it is given, by a Slurm of this machine that is there for it alone: one node, no
# authentication, all files in a folder that is removed in the end. Exits with the command's status; 77: Slurm is not installed, or its
# daemons do not start here.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

for program in slurmctld slurmd srun sinfo; do
    command -v "$program" >/dev/null || exit 77
done
folder=$(mktemp -d)
host=$(hostname -s)
port=$((20000 + $$ % 20000))
daemons=()
is_idle() {
    local i
    for ((i = 0; i < 100; i++)); do
        [[ $(sinfo -h -o %t 2>/dev/null) == idle ]] && return
        sleep 0.1
    done
    return 1
}
# What is behind a step ends once it has told the controller so.
clean_up() {
    ((${#daemons[@]})) && { is_idle || true; } && kill "${daemons[@]}" 2>/dev/null
    wait
    rm -rf "$folder"
}
trap clean_up EXIT

mkdir "$folder/state" "$folder/spool"
cat >"$folder/slurm.conf" <<EOF
ClusterName=ebb
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE
EOF
export SLURM_CONF=$folder/slurm.conf
timeout -k 5 1200 slurmctld -D >"$folder/slurmctld.log" 2>&1 &
daemons+=($!)
timeout -k 5 1200 slurmd -D >"$folder/slurmd.log" 2>&1 &
daemons+=($!)
if ! is_idle; then
    tail -n 5 "$folder"/*.log >&2
    exit 77
fi
"$@"
