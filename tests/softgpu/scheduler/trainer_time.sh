#!/usr/bin/env bash
# trainer_time.sh EBB_TRAIN: under the deterministic scheduler a training takes the same virtual time in every run and with every
# seed, another one on another GPU, and computes the same bits as with real threads. A dry run takes the same time, and computes nothing.
set -euo pipefail
trainer=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for i in {1..2000}; do echo "line $i of a text that is long enough to train on"; done >"$folder/text"

# Prints the virtual time (or nothing), then the hash of weights and moments.
train() { # train <variable=value>...
    env SOFTGPU_LOG=2 SOFTGPU_MEMORY=2G "$@" "$trainer" --data "$folder/text" --steps 4 --sample 10 --eval-batches 2 --log "$folder/log" \
        2>"$folder/errors" >&2
    sed -n 's/.*has taken \([0-9.]* ms\) of virtual time.*/\1/p' "$folder/errors"
    sed -n 's/.*"kind": "final".*"state_hash": "\([0-9a-f]*\)".*/\1/p' "$folder/log"
}

first=$(train SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=1 SOFTGPU_PROFILE=H100)
echo "H100: $first"
[[ $first == *ms*$'\n'* ]]
for seed in 1 2 3; do
    [[ $(train SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=$seed SOFTGPU_PROFILE=H100) == "$first" ]] ||
        { echo "seed $seed differs" >&2 && exit 1; }
done
other=$(train SOFTGPU_SCHEDULER=deterministic SOFTGPU_PROFILE=RTX3090)
echo "RTX 3090: $other"
[[ ${other%%$'\n'*} != "${first%%$'\n'*}" ]]
[[ ${other##*$'\n'} == "${first##*$'\n'}" ]]
[[ $(train SOFTGPU_SCHEDULER=threads) == "${first##*$'\n'}" ]]
dry=$(train SOFTGPU_SCHEDULER=deterministic SOFTGPU_PROFILE=H100 SOFTGPU_DRY=1)
echo "dry: $dry"
[[ ${dry%%$'\n'*} == "${first%%$'\n'*}" && $dry != "$first" ]]
