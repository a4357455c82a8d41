#!/bin/bash
# arenas.sh NASTY ARENAS LIBRARY: each program that tries to break ebb (programs/nasty), with what it allocates in stream order in one allocation
# (programs/arenas.c), without and with ebb, within little more than that allocation: the same output.
#
# Without `threads`, whose streams the arena would have to keep apart; those that reach memory which ebb does not see them reach, for whom nothing may
# leave the device (test_nasty.c: roomy, unseen_reads); and those with a launch that needs more than that at once.
set -euo pipefail
nasty=$1 arenas=$2 library=$3 failed=0 evicted=0 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ARENAS=40
for name in $("$nasty" --list | grep -vxE 'threads|hidden|object|device_table|masked|tables'); do
    plain=$(timeout 100 env LD_PRELOAD="$arenas" "$nasty" "$name" 2>/dev/null) || { echo "$name failed by itself"; failed=1; }
    under=$(timeout 100 env EBB_BUDGET=56MiB EBB_LOG=quiet EBB_STATS="$work/stats" LD_PRELOAD="$arenas:$library" "$nasty" "$name" 2>"$work/log") || {
        echo "$name failed"
        tail -3 "$work/log"
        failed=1
    }
    [ "$plain" = "$under" ] || { echo "$name: another output"; failed=1; }
    ! grep -q '"evictions": [1-9]' "$work/stats" || evicted=$((evicted + 1))
done
echo "memory was short for $evicted"
[ $failed = 0 ] && [ $evicted -ge 20 ]
