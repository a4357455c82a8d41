#!/usr/bin/env bash
# default_run.sh EBB_TRAIN: the trainer's default run on the quickstart's text reaches a held-out loss below 1.7 nats per byte.
set -euo pipefail
trainer=$1
command -v bible >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
bible -f gen1:1-rev22:21 >"$folder/text"
"$trainer" --data "$folder/text" --log "$folder/log" --sample 100 | tail -n 8
loss=$(sed -n 's/.*"kind": "final".*"held_out_loss": \([0-9.]*\).*/\1/p' "$folder/log")
echo "held-out loss ${loss:?the log has no final record}"
awk -v loss="$loss" 'BEGIN { exit !(loss > 0.5 && loss < 1.7) }'
