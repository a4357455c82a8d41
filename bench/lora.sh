#!/usr/bin/env bash
# lora.sh [--build FOLDER] [--work FOLDER]: what a step takes longer within a share of all its memory, where low-rank adapters are trained on a frozen
# model: llama:7B+lora of overhead.sh, whose way with traces this is. "copied each time" is the same step planned as with EBB_CLEAN=0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../build work=''
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift 2 ;;
    --work) work=$2; shift 2 ;;
    *) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
    esac
done
work=${work:-$build/bench/overhead}
bash "$here/overhead.sh" --build "$build" --work "$work" --traces llama:7B+lora
plan=$(mktemp)
trap 'rm -f "$plan" "$plan".*' EXIT

# row TRACE BYTES LINK: what is told of the plan: longer, MiB spared, out, in, at most above the best
row() {
    "$build/bin/ebb" plan -b "$2" --link "$3" -o "$plan.out" "$1" >"$plan" || { echo '- - - - -'; return; }
    awk '$1 == "time" { gsub(/[(+)]/, "", $NF); longer = $NF } $1 == "spared" { spared = $2 }
         $1 == "offloaded" && $5 == "MiB" { out = $6; in_ = $9 } $1 == "bound" { bound = $4 }
         END { print longer, spared + 0, out, in_, bound }' "$plan"
}

echo "# bash bench/lora.sh, $(date +%F), commit $(git -C "$here" describe --always --dirty)"
echo "# llama:7B, BF16, batch 1, context 4096, rank 16 on all matrices; the simulator's clock. Of the step: longer; MiB spared, out, in; at most"
echo "# above the best possible. Then longer, where nothing is spared."
printf '%-8s %6s %9s %8s %10s %10s %10s %8s %12s\n' GPU share 'GiB' longer spared out in above 'copied each'
while IFS='|' read -r gpu link; do
    trace=$work/llama-7B-lora.$gpu.merged.trace
    sed '1,3s/"clean": 1[.0]*/"clean": 0/' "$trace" >"$plan.each"
    peak=$("$build/bin/ebb" trace "$trace" | sed -n 's/.*(peak \([0-9.]*\) MiB.*/\1/p')
    for share in 80 70 60 50 40 30; do
        bytes=$(awk -v p="$peak" -v s=$share 'BEGIN { printf "%.0f", p * 1048576 * s / 100 }')
        read -r longer spared out in above <<<"$(row "$trace" "$bytes" "$link")"
        read -r each _ <<<"$(row "$plan.each" "$bytes" "$link")"
        printf '%-8s %5d%% %9.2f %8s %10s %10s %10s %8s %12s\n' "$gpu" $share "$(awk -v b="$bytes" 'BEGIN { print b / 2^30 }')" "$longer" "$spared" "$out" "$in" "$above" "$each"
    done
done <<<'A100|26000000000
H100|55000000000
RTX4090|26000000000'
