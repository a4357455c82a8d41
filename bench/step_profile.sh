#!/usr/bin/env bash
# step_profile.sh [options]: where the time of a training step goes on the software device.
#
# Runs ebb-train twice, with a few and with more steps, and takes the difference: processor time by kernel
# (SOFTGPU_KERNEL_TIMES), for each step, without what happens only once. Beside it what each kernel declares to compute and to
# move (KERNEL_COST), as a share of what this CPU could do in that time (bench_roof): the bound is whichever of the two would
# take longer. Above 100%: the tensors are still in the caches. Processor time hardly depends on what else the machine does.
#
#   --heads N        attention heads (default 8); likewise --layers 6, --width 256, --context 256, --batch 8
#   --dtype TYPE     fp32 (default) or bf16
#   --steps N        that are measured (default 20)
#   --data FILE      the text (default: build/data/bible.txt)
#   --save           writes bench/results/step-profile.json
#
# BUILD_FOLDER names the build folder.
set -euo pipefail

# shellcheck source=bench/options.sh
source "$(dirname "${BASH_SOURCE[0]}")/options.sh"
layers=6 width=256 heads=8 context=256 batch=8 steps=20 dtype=fp32
data=$build/data/bible.txt
save=''
warmup=4

# run_steps <count> <name>: writes <name>.times, and the process's processor time to <name>.seconds.
run_steps() {
    TIMEFORMAT='%U %S'
    { time LD_LIBRARY_PATH=$build/softgpu/lib SOFTGPU_KERNEL_TIMES=$folder/$2.times "$build/bin/ebb-train" --data "$data" \
        --log "$folder/log" --layers "$layers" --width "$width" --heads "$heads" --context "$context" --batch "$batch" \
        --dtype "$dtype" --steps "$1" --lr 1e-3 --sample 0 >/dev/null 2>"$folder/err"; } 2>"$folder/$2.seconds" ||
        fail 'ebb-train failed:' "$(cat "$folder/err")"
}

summarise() {
    FOLDER=$folder RESULT=${save:+$root/bench/results/step-profile.json} STEPS=$steps COMMAND=$command SHAPE="$layers $width $heads $context $batch $dtype" \
        COMMIT=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown) python3 - <<'PY'
import datetime, json, os, re, subprocess

env, folder, steps = os.environ, os.environ["FOLDER"], int(os.environ["STEPS"])


def read(name):
    times = {}
    for line in open(f"{folder}/{name}.times"):
        record = json.loads(line)
        times[record["kernel"]] = record
    seconds = sum(float(x) for x in open(f"{folder}/{name}.seconds").read().split()[-2:])
    return times, seconds


def plain(name):
    """column_pass_kernel<3, float> from a mangled name."""
    text = subprocess.run(["c++filt", name], stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
    return re.sub(r"^void ", "", re.sub(r"\(([a-z_]+)\)", "", text)).split("(")[0]


few, few_seconds = read("few")
many, many_seconds = read("many")
roof = json.load(open(f"{folder}/roof"))
rows = []
for name, m in many.items():
    f = few.get(name, {"launches": 0, "processor_ns": 0, "operations": 0, "bytes": 0})
    launches, ns, operations, size = ((m[k] - f[k]) / steps for k in ("launches", "processor_ns", "operations", "bytes"))
    if launches <= 0:
        continue
    ns = max(ns, 1.0)  # a difference of two measurements
    arithmetic, memory = operations / roof["gflops"], size / roof["memory_gb_s"]  # ns
    rows.append({
        "kernel": plain(name), "launches": round(launches, 2), "ms": round(ns / 1e6, 3), "operations": operations,
        "gflops": round(operations / ns, 1), "gb_s": round(size / ns, 1),
        "bound": "arithmetic" if arithmetic > memory else "memory", "of_bound": round(max(arithmetic, memory) / ns, 3),
    })
rows.sort(key=lambda r: -r["ms"])
inside = sum(r["ms"] for r in rows)
total_ms = max((many_seconds - few_seconds) / steps * 1e3, inside)
for r in rows:
    r["share"] = round(r["ms"] / total_ms, 4)
layers, width, heads, context, batch, dtype = env["SHAPE"].split()
print(f"{layers} layers, width {width}, {heads} heads, T {context}, batch {batch}, {dtype}: {total_ms:.1f} ms of processor time a step")
print(f"a thread: {roof['gflops']} GFLOP/s, {roof['memory_gb_s']} GB/s from memory, {roof['cache_gb_s']} from the caches\n")
print("| kernel | launches | ms | share | GFLOP/s | GB/s | bound by | of the bound |")
print("| --- | --- | --- | --- | --- | --- | --- | --- |")
all_operations = sum(r["operations"] for r in rows)
listed = [r for r in rows if r["share"] >= 0.002 or r["operations"] >= 0.01 * all_operations]
for r in listed:
    print(f"| {r['kernel']} | {r['launches']:g} | {r['ms']:.2f} | {r['share']:.1%} | {r['gflops']} | {r['gb_s']} | {r['bound']} | {r['of_bound']:.0%} |")
small = [r for r in rows if r not in listed]
print(f"| {len(small)} others | {sum(r['launches'] for r in small):g} | {sum(r['ms'] for r in small):.2f} | {sum(r['share'] for r in small):.1%} | | | | |")
print(f"| outside kernels: the program, launching, waiting | | {total_ms - inside:.2f} | {1 - inside / total_ms:.1%} | | | | |")
if env["RESULT"]:
    def text(path, pattern):
        found = re.search(pattern, open(path).read(), re.M)
        return found.group(1).strip() if found else "unknown"
    result = {
        "date": datetime.date.today().isoformat(), "command": env["COMMAND"], "commit": env["COMMIT"],
        "machine": {"cpu": text("/proc/cpuinfo", r"^model name\s*: (.*)$"), "cores": os.cpu_count(),
                    "load_after": " ".join(open("/proc/loadavg").read().split()[:3])},
        "roof_of_a_thread": roof, "processor_ms_per_step": round(total_ms, 2), "outside_kernels_ms": round(total_ms - inside, 2),
        "kernels": rows,
    }
    with open(env["RESULT"], "w") as out:
        json.dump(result, out, indent=1)
        out.write("\n")
    print("\nwritten to", env["RESULT"])
PY
}

main() {
    command="bash bench/step_profile.sh $*"
    parse_options 'heads layers width context batch steps data dtype' "$@"
    need ebb-train bench_roof
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    shorten "$folder"
    "$build/bin/bench_roof" >"$folder/roof"
    run_steps "$warmup" few
    run_steps $((warmup + steps)) many
    summarise
}

main "$@"
