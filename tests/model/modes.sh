#!/usr/bin/env bash
# modes.sh EBB_TRAIN: the trainer, its kernels run fast, in SIMT and in checked mode, which finds nothing to report: the losses of
# a few steps agree. With --graph they are, in each mode, to the bit those of the same run without it.
set -euo pipefail
trainer=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for i in {1..200}; do echo "line $i of a text that nobody reads"; done >"$folder/text"

losses() { # losses <log>
    sed -n 's/.*"kind": "step".*"loss": \([0-9.e-]*\).*/\1/p' "$1"
}

state() { # state <log>: the hash of weights and moments at the end
    sed -n 's/.*"kind": "final".*"state_hash": "\([0-9a-f]*\)".*/\1/p' "$1"
}

launches() { # launches <log>: of the last step
    sed -n 's/.*"kind": "step", "step": 3,.*"launches": \([0-9]*\).*/\1/p' "$1"
}

for way in '--attention flash' '--attention naive' '--model llama:tiny --kv-heads 1 --hidden 24' '--dtype bf16 --rounding stochastic --save lean' '--dtype bf16 --width 128' \
    '--dtype bf16 --width 128 --graph'; do
    tolerance=1e-5
    [[ $way != *bf16* ]] || tolerance=1e-3 # a sum may be rounded the other way
    for mode in fast simt checked; do
        # shellcheck disable=SC2086 # words
        SOFTGPU_MODE=$mode SOFTGPU_POISON=1 "$trainer" --data "$folder/text" --log "$folder/$mode" \
            --layers 1 --width 16 --heads 2 --context 12 --batch 2 --accumulate 2 --dropout 0.2 --steps 3 --sample 3 $way \
            >"$folder/output" 2>&1 || { cat "$folder/output"; exit 1; }
        losses "$folder/$mode" >"$folder/losses.$mode"
        attention=flash # auto takes whole warps' instructions where there are whole warps
        [[ $way != *naive* ]] || attention=naive
        [[ $way != *'width 128'* || $mode == fast ]] || attention=tensor
        grep -q "\"kind\": \"run\".*\"attention\": \"$attention\"" "$folder/$mode"
        [[ $(wc -l <"$folder/losses.$mode") == 3 ]]
        if [[ $way == *--graph ]]; then
            grep -q '"graph": true' "$folder/$mode"
            [[ $(launches "$folder/$mode") == 7 ]] # all but the first step are graphs
            [[ $(state "$folder/$mode") == "$(cat "$folder/state.$mode")" ]]
        fi
        state "$folder/$mode" >"$folder/state.$mode" # for the next way, if that is this one with --graph
        paste "$folder/losses.fast" "$folder/losses.$mode" |
            awk -v mode="$way, $mode" -v by=$tolerance '($1 - $2) ^ 2 > ($1 * by) ^ 2 { print mode ": loss " $2 ", fast " $1; bad = 1 } END { exit bad }'
    done
done
