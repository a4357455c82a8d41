#!/usr/bin/env bash
# run.sh <softgpu-clang++> <source> <folder> [<libebb.so>]: compiles a program for the software device and runs it, which checks what its
# kernels compute; under ebb, it also has to know every launch, and to evict. 77: there is no Clang that can do it.
set -euo pipefail

program=$3/$(basename "$2" .cu)
mkdir -p "$3"
if ! why=$("$1" --version 2>&1); then
    printf '%s\n' "$why"
    exit 77
fi
"$1" -O2 -std=c++17 --expt-relaxed-constexpr --extended-lambda -w "$2" -o "$program${4:+.ebb}"
[[ -n ${4:-} ]] || exec "$program"
EBB_BUDGET=15MiB EBB_STATS=$program.json LD_PRELOAD=$4 "$program.ebb"
grep -q '"obscure": 0,' "$program.json"
! grep -q '"evictions": 0,.*"devices"' "$program.json"
