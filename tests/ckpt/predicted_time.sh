#!/usr/bin/env bash
# predicted_time.sh TRAINER LANES LIBRARY: what plans of the unmodified trainer, and of a loop on three streams (programs/lanes.c), are told
# to take, beside what driven steps take on the software device's computed clock: time within 3%, peak equal to the chunk. Also over a
# link that is lopsided while copies go both ways (softgpu/driver/scheduler/profile.c has the source of such rates).
# TEST_LONG=1: more shapes, GPUs, budgets and policies; some of these fit as they are, and for some only `auto` has a plan.
set -euo pipefail
trainer=$1 lanes=$2 library=$3
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
export XDG_CACHE_HOME=$folder SOFTGPU_SCHEDULER=deterministic
seq 40000 >"$folder/text"

failed=0
check_run() { # check_run GPU BUDGET POLICY command..
    local gpu=$1 budget=$2 policy=$3
    shift 3
    rm -f "$folder/stats"
    SOFTGPU_PROFILE=$gpu EBB_BUDGET=$budget EBB_POLICY=$policy EBB_LOG=quiet EBB_STATS=$folder/stats EBB_TRACE=$folder/trace \
        LD_PRELOAD=$library "$@" >"$folder/log" 2>&1 ||
        { tail -5 "$folder/log"; failed=1; return; }
    python3 - "$folder/stats" "$gpu $budget $policy ${*##*/}" <<'PYTHON' || failed=1
import json
import os
import sys
stats = json.load(open(sys.argv[1]))
plans = [p["plan"][0]["predicted_ns"] for p in stats["planned"] if "plan" in p]
if os.environ.get("TEST_LONG") == "1" and not plans and (" auto " not in sys.argv[2] or not stats["evictions"]):
    print(f"{sys.argv[2]}: no plan, {stats['evictions']} evictions")
    sys.exit()
assert len(plans) == 1 and stats["driven_timed"] >= 2 and not stats["replans"], f"{sys.argv[2]}: not driven: {stats['steps_driven']} steps"
measured = stats["driven_ns"] / stats["driven_timed"]
print(f"{sys.argv[2]}: {plans[0] * 1e-6:.3f} ms predicted, {measured * 1e-6:.3f} measured, {100 * (plans[0] / measured - 1):+.2f}%")
assert abs(plans[0] - measured) <= 0.03 * measured, "more than 3%"
assert stats["predicted_peak_bytes"] == stats["driven_peak_bytes"], "another peak"
PYTHON
}

check() { # check GPU BUDGET POLICY flags..
    check_run "${@:1:3}" "$trainer" --data "$folder/text" --sample 0 --eval-every 0 --steps 14 "${@:4}"
}

gpt2='--layers 3 --width 192 --heads 3 --context 256 --batch 8'
check a100 76MiB auto $gpt2
check_run a100 54MiB auto "$lanes" steps=20
export SOFTGPU_LINK=25,25,25,11 XDG_CACHE_HOME=$folder/lopsided
[ "${TEST_LONG:-0}" != 1 ] || EBB_RECOMPUTE=0 check a100 90MiB auto $gpt2
EBB_RECOMPUTE=0 check_run a100 54MiB auto "$lanes" steps=20
export SOFTGPU_LINK=50,150,50,150 XDG_CACHE_HOME=$folder/two-way # copies in slow kernels down three times as much as copies out
EBB_RECOMPUTE=0 check_run a100 54MiB auto "$lanes" steps=20
python3 - "$folder/trace" <<'PYTHON' || failed=1
import json
import sys
hardware = json.loads(open(sys.argv[1]).readline())["hardware"]
out, into = hardware["out_slowdown"], hardware["in_slowdown"]
print(f"slowdown by copies: {out:.3f} out, {into:.3f} in")
for measured, rate in (out, 50), (into, 150): # of the memory's 2039 GB/s
    expected = 1 / (1 - rate / 2039) - 1
    assert abs(measured - expected) < 0.1 * expected, "another slowdown"
PYTHON
unset SOFTGPU_LINK
export XDG_CACHE_HOME=$folder
EBB_OFFLOAD=0 check_run h100 120MiB auto "$lanes" steps=20 mib=12
if [ "${TEST_LONG:-0}" = 1 ]; then
    EBB_RECOMPUTE=0 check rtx4090 90MiB auto $gpt2
    llama='--model llama:tiny --layers 4 --width 256 --heads 4 --kv-heads 2 --context 256 --batch 8'
    for gpu in a100 h100 rtx4090; do
        for policy in auto offload sqrt selective uniform:2; do
            check $gpu 80MiB $policy $gpt2
            check $gpu 140MiB $policy --layers 4 --width 256 --heads 4 --context 256 --batch 8
        done
        EBB_RECOMPUTE=0 check $gpu 140MiB auto --layers 4 --width 256 --heads 4 --context 256 --batch 8
        check $gpu 100MiB auto --layers 4 --width 256 --heads 4 --context 256 --batch 8
        # so many steps that each of what is compared now and then is as often as foreseen
        for budget in 70 60 54 46 38; do
            check_run $gpu ${budget}MiB auto "$lanes" steps=40
            check_run $gpu $((budget * 3))MiB auto "$lanes" steps=40 mib=12
        done
        EBB_OFFLOAD=0 check_run $gpu 60MiB auto "$lanes" steps=40
        EBB_RECOMPUTE=0 check_run $gpu 38MiB auto "$lanes" steps=40
        check $gpu 120MiB auto $llama
        check $gpu 120MiB auto $llama --dtype bf16
    done
fi
exit $failed
