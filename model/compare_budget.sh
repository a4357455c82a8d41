#!/usr/bin/env bash
# compare_budget.sh BUILD DATA [percent]: the same short training twice, by itself and under ebb with a part of the memory
# that it takes by itself (40% if not said otherwise), and what came of it side by side. LD_LIBRARY_PATH says on which device.
#
# BUILD is the build folder, DATA a file, whose bytes are trained on as a text. Logs, statistics and the report of the step under
# ebb stay in BUILD/compare.
# Exit code 1 if a run fails or the losses differ.
set -euo pipefail

build=$1 data=$2 percent=${3:-40}
folder=$build/compare
# Activations of several 2 MiB chunks each; the state (weights, gradients, moments) is a quarter of the peak.
training=(--layers 4 --width 256 --heads 4 --context 256 --batch 8 --steps 30 --dropout 0.1 --eval-batches 1 --sample 0)

# The last value of a key in a file of JSON lines.
value() {
    sed -n "s/.*\"$2\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$1" | tail -n 1
}

mebibytes() {
    awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'
}

# The median time of the last ten steps.
step_time() {
    sed -n 's/.*"kind": "step".*"ms": \([0-9.]*\).*/\1/p' "$1" | tail -n 10 | sort -n |
        awk '{ ms[NR] = $1 } END { printf "%.0f ms", ms[int((NR + 1) / 2)] }'
}

losses() {
    sed -n 's/.*"loss_hex": "\([^"]*\)".*/\1/p' "$1"
    value "$1" state_hash
}

train() {
    local name=$1
    shift
    if ! "$@" "$build/bin/ebb-train" --data "$data" --data-kind text --log "$folder/$name.jsonl" "${training[@]}" \
        >"$folder/$name.txt" 2>"$folder/$name.err"; then
        echo "ebb: the training '$name' failed: $(tail -n 1 "$folder/$name.err") (all of it: $folder/$name.err)" >&2
        exit 1
    fi
}

# What the context itself takes of the device is part of the budget; on the software device nothing.
overhead() {
    EBB_STATS=$folder/overhead.json LD_PRELOAD=$build/lib/libebb.so "$build/bin/ebb-train" --data "$data" --data-kind text --log /dev/null \
        "${training[@]}" --steps 1 >/dev/null 2>&1 || true
    value "$folder/overhead.json" overhead_bytes
}

main() {
    mkdir -p "$folder"
    rm -f "$folder"/*
    head -c 400000 "$data" >"$folder/text" # the last part of it is evaluated at the end
    data=$folder/text
    train without env
    local peak budget stats=$folder/stats.json same='no, they differ'
    peak=$(value "$folder/without.jsonl" peak_bytes)
    budget=$((peak * percent / 100))
    train with "$build/bin/ebb" run --budget "$((budget + $(overhead)))" --stats "$stats" --trace "$folder/step.trace" \
        --report "$folder/report.html" --
    losses "$folder/without.jsonl" >"$folder/without.losses"
    losses "$folder/with.jsonl" >"$folder/with.losses"
    cmp -s "$folder/without.losses" "$folder/with.losses" && same='yes, bit for bit, final state too'

    local row='%-26s %16s %16s\n'
    echo "a larger model, trained by itself and in ${percent}% of its memory (${training[*]})"
    printf "$row" '' 'by itself' 'under ebb'
    printf "$row" 'peak device memory' "$(mebibytes "$peak")" "$(mebibytes "$(value "$stats" peak_bytes)")"
    printf "$row" 'time of a step (median)' "$(step_time "$folder/without.jsonl")" "$(step_time "$folder/with.jsonl")"
    printf '%-26s %s\n' 'losses equal' "$same"
    printf '%-26s %s of %s; the first ones learn\n' 'steps driven by the plan' "$(value "$stats" steps_driven)" \
        "$(value "$folder/with.jsonl" steps)"
    printf '%-26s %s kept (%s), %s offloaded (%s), %s dropped and recomputed (%s)\n' 'buffers of a step' \
        "$(value "$stats" kept)" "$(mebibytes "$(value "$stats" kept_bytes)")" \
        "$(value "$stats" offloaded)" "$(mebibytes "$(value "$stats" offloaded_bytes)")" \
        "$(value "$stats" dropped)" "$(mebibytes "$(value "$stats" dropped_bytes)")"
    if [[ -s $folder/report.html ]]; then
        printf '%-26s %s\n' 'what happens in a step' "$folder/report.html"
    fi
    [[ $same == yes* ]]
}

main
