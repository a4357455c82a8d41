#!/bin/bash
# What a change of plans costs: tests/ckpt/programs/loop.c on the software device, whose driver's calls are counted. Steps of one kind, and of
# two kinds in turn; and with two buffers that change places in each step, which several plans cannot share (drive.h). Calls are those of
# the last 40 steps, at what they cost on an H200 for each chunk (results/README.md): 30 us to map it with access, 20 us to unmap it.
#
#   bash bench/changes.sh [--build DIR]
set -euo pipefail
# shellcheck source=bench/options.sh
source "$(dirname "${BASH_SOURCE[0]}")/options.sh"
parse_options build "$@"
export build
exec python3 -B - <<'PYTHON'
import json, os, re, subprocess, tempfile

BUILD, CHUNK, STEPS = os.environ["build"], 2 << 20, 40
WAYS = {"one kind": "", "two kinds": "short=2", "one kind, not shared": "swap=1", "two kinds, not shared": "short=2 swap=1"}


def run(way, steps):
    """Steps driven, changes of plans, plans left, chunks mapped and unmapped."""
    with tempfile.NamedTemporaryFile() as stats, tempfile.NamedTemporaryFile() as calls:
        env = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
        env.update(LD_PRELOAD=f"{BUILD}/lib/libebb.so", LD_LIBRARY_PATH=f"{BUILD}/softgpu/lib", SOFTGPU_SCHEDULER="deterministic", SOFTGPU_SEED="1",
                   SOFTGPU_MEMORY="52MiB", EBB_PLAN_WAIT="600000", SOFTGPU_TRACE=calls.name, EBB_STATS=stats.name)
        subprocess.run([f"{BUILD}/bin/loop", *way.split(), f"steps={steps}"], env=env, capture_output=True, timeout=600, check=True)
        told, trace = json.load(open(stats.name)), open(calls.name).read()
    sizes = {name: sum(int(n, 0) for n in re.findall(rf"{name}\(.*?\b(?:size|bytes)=(\w+).* = CUDA_SUCCESS", trace)) // CHUNK
             for name in ("cuMemMap", "cuMemUnmap")}
    return [told["steps_driven"], told["changes"], told["fallbacks"], sizes["cuMemMap"], sizes["cuMemUnmap"]]


print("| of 40 steps | driven | changes of plans | plans left | chunks mapped | unmapped | a step, us |\n| --- " + "| --- " * 6 + "|")
for name, way in WAYS.items():
    driven, changes, left, mapped, unmapped = (b - a for a, b in zip(run(way, 44), run(way, 44 + STEPS)))
    print(f"| {name} | {driven} | {changes} | {left} | {mapped} | {unmapped} | {(30 * mapped + 20 * unmapped) / STEPS:.0f} |")
PYTHON
