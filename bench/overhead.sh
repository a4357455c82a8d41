#!/usr/bin/env bash
# overhead.sh [--build FOLDER] [--work FOLDER] [--output FILE] [--short] [--traces] [MODEL..]: what budgets cost on an A100, an H100 and an RTX 4090, for
# every policy: results/overhead.json and the tables in results/overhead.md. --short: one small model, two GPUs, in a
# folder of its own, nothing written to results/. --traces: only makes the traces.
#
# Shapes that no machine here can compute are planned for by their own traces, made of three kinds of runs of the unmodified ebb-train under
# ebb on the software device (merge_traces.py has the rules):
#   small    small shapes of the same models, computed, all proofs made: what operations write, and which may be replayed
#   deep     the true shape as a dry run (SOFTGPU_DRY=1) on the first GPU: operations, buffers, sizes, lifetimes, times
#   shallow  the same with two layers, dry, on each further GPU: times there
# The folder with the traces (--work, build/bench/overhead unless given) is kept: what is there is not recorded again. The step's
# batch is BATCH of MODELS below. bench_overhead.c plans, proves and simulates.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../build work='' output=$here/results/overhead short=0 plan=1 wanted=()
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift 2 ;;
    --work) work=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --short) short=1; shift ;;
    --traces) plan=0; shift ;;
    -*) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
    *) wanted+=("$1"); shift ;;
    esac
done
build=$(cd "$build" && pwd)
if [ $short = 1 ]; then
    work=$(mktemp -d)
    trap 'rm -r "$work"' EXIT
fi
work=${work:-$build/bench/overhead}
mkdir -p "$work"
export LD_LIBRARY_PATH=$build/softgpu/lib XDG_CACHE_HOME=$work

# MODEL|BATCH|token bytes|flags of the small runs, separated by ';'
GPT2='--layers 4 --width 128 --heads 2 --context 256 --batch 18 --vocab 16384'
LLAMA='--layers 3 --width 256 --context 256 --batch 10 --hidden 768 --vocab 16384'
MODELS="gpt2:124M|16|2|$GPT2
gpt2:355M|16|2|$GPT2
gpt2:774M|8|2|$GPT2
gpt2:1558M|4|2|$GPT2
llama:1B|1|4|$LLAMA --heads 4 --kv-heads 1
llama:7B|1|2|$LLAMA --heads 2 --kv-heads 2 --batch 7 --context 512
llama:7B+lora|1|2|$LLAMA --heads 2 --kv-heads 2 --batch 7 --context 512"
GPUS='A100|26|2039|80
H100|55|3350|80
RTX4090|26|1008|24' # name, link and memory in 10^9 bytes a second (softgpu/driver/scheduler/profile.c), GiB
if [ $short = 1 ]; then
    MODELS="gpt2:124M|4|2|--layers 3 --width 128 --heads 2 --context 256 --batch 18 --vocab 512"
    SHAPE='--layers 4 --width 256 --heads 4 --context 256 --vocab 512 --batch 18'
    GPUS=$(sed -n '1,2p' <<<"$GPUS")
fi

# A shard of random tokens (model/data/data.h); a text for small runs, whose tokens are bytes.
[ -s "$work/tokens4" ] || python3 - "$work" <<'PYTHON'
import random, struct, sys
r = random.Random(1)
for size, code, head in (2, "H", (20240520, 1)), (4, "I", (20240801, 7)):
    with open(f"{sys.argv[1]}/tokens{size}", "wb") as f:
        f.write(struct.pack("<256i", *head, 200000, *[0] * 253) + struct.pack(f"<200000{code}", *(r.randrange(512) for _ in range(200000))))
with open(f"{sys.argv[1]}/text", "w") as f:
    f.write(" ".join(str(i) for i in range(60000)))
PYTHON

# Of one architecture, so that kernels have the same arguments whatever the profile.
record() { # record FILE PROFILE <variable=value>... -- flags...
    local file=$1 profile=$2 environment=()
    shift 2
    while [ "$1" != -- ]; do environment+=("$1"); shift; done
    shift
    [ -s "$file" ] && return
    echo "recording $(basename "$file")" >&2
    env SOFTGPU_SCHEDULER=deterministic SOFTGPU_PROFILE="$profile" SOFTGPU_ARCH=80 SOFTGPU_MEMORY=160GiB EBB_LOG=warn EBB_TRACE="$file.new" \
        LD_PRELOAD="$build/lib/libebb.so" "${environment[@]}" "$build/bin/ebb-train" --dtype bf16 --sample 0 --eval-batches 1 "$@" >"$file.log" 2>&1 ||
        { tail -5 "$file.log" >&2; exit 1; }
    mv "$file.new" "$file"
}

small() { # small NAME MODEL flags..: a policy that is no auto has everything proven
    record "$work/small-$1.trace" A100 EBB_POLICY=uniform:1 -- --data "$work/text" --steps 20 --model "${@:2}"
}

dry() { # dry FILE PROFILE BYTES flags..
    record "$1" "$2" SOFTGPU_DRY=1 -- --data "$work/tokens$3" --steps 9 "${@:4}"
}

# What a model's name asks for beside its preset: adapters on all matrices, and what people then do without (lora.sh).
flags_of() { [[ $1 != *+lora ]] || echo "--lora-rank 16 --lora-targets all-linear --save lean"; }

name_of() { tr -c 'A-Za-z0-9\n' - <<<"$1"; }


first=${GPUS%%|*}
while IFS='|' read -r model batch bytes flags; do
    [ ${#wanted[@]} = 0 ] || [[ " ${wanted[*]} " == *" $model "* ]] || continue
    name=$(name_of "$model") shape=${SHAPE:---batch $batch}
    more=$(flags_of "$model") model=${model%+lora}
    flags="$flags $more" shape="$shape $more"
    [ $short = 0 ] || name=short
    facts=$work/small-$(name_of "${model%:*} $flags" | cksum | cut -d' ' -f1).trace
    small "$(basename "$facts" .trace | cut -d- -f2)" "$model" $flags
    dry "$work/$name.deep.trace" "$first" "$bytes" --model "$model" $shape
    while IFS='|' read -r gpu link memory _; do
        times=()
        if [ "$gpu" != "$first" ]; then
            dry "$work/$name.$gpu.trace" "$gpu" "$bytes" --model "$model" $shape --layers 2
            times=(--times "$work/$name.$gpu.trace")
        fi
        merged=$work/$name.$gpu.merged.trace
        python3 "$here/merge_traces.py" "$work/$name.deep.trace" "$facts" "${times[@]}" -o "$merged"
        [ $plan = 1 ] || continue
        echo "planning $model on $gpu" >&2
        "$build/bin/bench_overhead" "$merged" "$link" "$memory" >"$work/$name.$gpu.plans.json"
        BENCH_VERIFY=1 BENCH_POLICY=auto "$build/bin/bench_overhead" "$merged" "$link" "$memory" >"$work/$name.$gpu.verified.json"
    done <<<"$GPUS"
done <<<"$MODELS"

[ $plan = 1 ] || exit 0
[ $short = 0 ] || output=$work/short
BENCH_MODELS=$MODELS BENCH_GPUS=$GPUS BENCH_SHORT=$short python3 "$here/overhead_table.py" "$work" "$output"
