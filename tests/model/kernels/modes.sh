#!/usr/bin/env bash
# modes.sh <test program> <compare_modes>: runs a test of kernels in fast mode, in SIMT mode with several block sizes and
# orders of threads, and in checked mode, and compares the results. One block size unless TEST_LONG=1.
#
# Between fast and SIMT mode what only moves numbers, or adds them up in an order that the source gives, has the same bits;
# sums over lanes differ by rounding. Between block sizes everything has the same bits but what a whole block adds up (the
# loss, the norm of long rows, one token's attention); the order of threads changes nothing at all. Checked mode is another compilation: the
# compiler may form other multiply-adds.
set -euo pipefail

program=$1 compare=$2
moved=(x dwte dwpe sum dbeta dy result m q k qkv heads unheads turned "turned back" "-")
by_block=(losses logits "logits(bf16)" "norm and scale" next "next(bf16)")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run() { # run <name> VARIABLE=value...
    local name=$1
    shift
    if ! env EBB_TEST_DUMP="$folder/$name" EBB_TEST_SMALL=1 "$@" "$program" >"$folder/log" 2>&1; then
        echo "$name ($*):"
        cat "$folder/log"
        exit 1
    fi
}

compare() { # compare <name> <name> <what is the same in bits>...
    local a=$1 b=$2
    shift 2
    "$compare" "$folder/$a" "$folder/$b" "$@" || { echo "$a and $b do not agree"; exit 1; }
}

run fast SOFTGPU_MODE=fast
run as_launched SOFTGPU_MODE=simt
compare fast as_launched "${moved[@]}"
blocks=(64)
[[ ${TEST_LONG:-} != 1 ]] || blocks=(32 64 256)
for block in "${blocks[@]}"; do
    run "block_$block" SOFTGPU_MODE=simt SOFTGPU_BLOCK=$block SOFTGPU_SEED=$block
    compare fast "block_$block" "${moved[@]}"
    compare as_launched "block_$block" all "${by_block[@]}"
done
run another_order SOFTGPU_MODE=simt SOFTGPU_SEED=77
compare as_launched another_order all
run checked SOFTGPU_MODE=checked SOFTGPU_POISON=1
compare as_launched checked "${moved[@]}"
