#!/usr/bin/env bash
# tensor_modes.sh <test program> <compare_modes>: attention on matrix instructions in SIMT mode, with the threads in several
# orders, and in checked mode, which finds no race: the same results.
set -euo pipefail
program=$1 compare=$2
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

run() { # run <name> VARIABLE=value...
    local name=$1
    shift
    env EBB_TEST_DUMP="$folder/$name" EBB_TEST_SMALL=1 SOFTGPU_POISON=1 "$@" "$program" >"$folder/log" 2>&1 ||
        { cat "$folder/log" && exit 1; }
}

run as_numbered SOFTGPU_MODE=simt
run another_order SOFTGPU_MODE=simt SOFTGPU_SEED=77
"$compare" "$folder/as_numbered" "$folder/another_order" all
run checked SOFTGPU_MODE=checked SOFTGPU_SEED=3
"$compare" "$folder/as_numbered" "$folder/checked" # another compilation, which may form other multiply-adds
