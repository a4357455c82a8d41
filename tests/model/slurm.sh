#!/usr/bin/env bash
# slurm.sh COMMAND...: runs it where `srun` starts what it is given, by a Slurm of this machine that is there for it alone: one node, no
# authentication (other users of the machine could start something by it meanwhile), all files in a folder that is removed in the end. Exits
# with the command's status; 77: Slurm is not installed, or its daemons do not start here.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

for program in slurmctld slurmd srun sinfo; do
    command -v "$program" >/dev/null || exit 77
done
unset "${!SLURM_@}" "${!SRUN_@}"
folder=$(mktemp -d)
host=$(hostname -s)
port=$((20000 + 2 * ($$ % 6000)))
daemons=()
ready=

# Within 20 seconds, unless a daemon has ended.
is_idle() {
    local end=$((SECONDS + 20))
    while ((SECONDS < end)); do
        kill -0 "${daemons[0]}" 2>/dev/null && kill -0 "${daemons[1]}" 2>/dev/null || return 1
        [[ $(timeout 5 sinfo -h -o %t 2>/dev/null) != idle ]] || return 0
        sleep 0.1
    done
    return 1
}
# What is behind a step ends once it has told the controller so.
clean_up() {
    [[ -z $ready ]] || is_idle || true
    kill "${daemons[@]}" 2>/dev/null || true
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
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
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
PartitionName=all Nodes=ALL Default=YES MaxTime=20
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
ready=yes
"$@"
