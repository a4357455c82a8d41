#!/bin/bash
# Records the allocations of one step of ebb-train in several shapes, in the form that bench_replay reads, into
# bench/traces/. Needs a build (default: build); takes some minutes. ebb itself writes the step (EBB_TRACE); the
# shapes are small enough for the software device.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for i in 1 2 3 4 5 6 7 8; do cat docs/*.md; done > "$work/text"

record() { # name flags...
    local name=$1
    shift
    LD_LIBRARY_PATH=$build/softgpu/lib LD_PRELOAD=$build/lib/libebb.so EBB_TRACE=$work/trace EBB_LOG=quiet \
        "$build/bin/ebb-train" --data "$work/text" --sample 0 --eval-batches 1 "$@" > /dev/null
    python3 - "$work/trace" "bench/traces/$name.txt" "$*" <<'PYTHON'
import json, sys
source, target, flags = sys.argv[1:]
rows = [json.loads(line) for line in open(source)]
buffers = [r for r in rows if "buffer" in r]
operations = [r for r in rows if "op" in r]
with open(target, "w") as out:
    print(f"# one step of ebb-train {flags}", file=out)
    for b in buffers:
        if b["born"] is None:
            print("a", b["buffer"], b["bytes"], file=out)
    print("step", file=out)
    for i in range(len(operations) + 1):
        # What comes first at one point, a free or an allocation, the trace does not say: the dearer order.
        for b in buffers:
            if b["born"] == i:
                print("a", b["buffer"], b["bytes"], file=out)
        for b in buffers:
            if b["dies"] == i and b["born"] is not None:
                print("f", b["buffer"], file=out)
        if i < len(operations):
            print("k", *[a[0] for a in operations[i]["access"]], file=out)
PYTHON
    head -1 "bench/traces/$name.txt"
}

record tiny --steps 12
record naive-dropout --steps 12 --attention naive --dropout 0.1 --accumulate 2
record wide --steps 10 --layers 6 --width 256 --heads 8 --context 256 --batch 8
record gpt2-124M --steps 10 --model gpt2:124M --context 256 --batch 1
