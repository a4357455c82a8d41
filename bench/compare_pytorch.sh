#!/usr/bin/env bash
# compare_pytorch.sh [options]: ebb-train on the software device against eager PyTorch on the same CPU.
#
# The same model, batch, precision (fp32) and threads; the programs take turns (A B A B ...), so that what else the machine
# does meets both. Prints tokens per second of each, from the median step of each turn and from the fastest step of all, and
# their ratios.
#
#   --python FILE    a Python that has PyTorch; may be given several times (default: /usr/bin/python3, with
#                    the distribution's python3-torch and libopenblas0-openmp)
#   --heads N        attention heads (default 8); likewise --layers 6, --width 256, --context 256, --batch 8
#   --threads N      of each program (default 2)
#   --steps N        per turn (default 20), of which the first 5 are not measured
#   --rounds N       turns of each (default 3)
#   --data FILE      the text (default: build/data/bible.txt)
#   --save           writes bench/results/pytorch-<heads>heads.json
#
# BUILD_FOLDER names the build folder. Measure on a machine that does nothing else.
set -euo pipefail

# shellcheck source=bench/options.sh
source "$(dirname "${BASH_SOURCE[0]}")/options.sh"
pythons=()
layers=6 width=256 heads=8 context=256 batch=8 threads=2 steps=20 rounds=3 warmup=5
data=$build/data/bible.txt
save=''

check() {
    local python
    need ebb-train
    ((${#pythons[@]} > 0)) || pythons=(/usr/bin/python3)
    for python in "${pythons[@]}"; do
        "$python" -c 'import torch' 2>/dev/null || fail "$python has no PyTorch" \
            'on Debian or Ubuntu: apt-get install python3-torch libopenblas0-openmp'
    done
}

# run_ebb <log>
run_ebb() {
    LD_LIBRARY_PATH=$build/softgpu/lib SOFTGPU_WORKERS=$threads "$build/bin/ebb-train" --data "$data" --log "$1" \
        --layers "$layers" --width "$width" --heads "$heads" --context "$context" --batch "$batch" --steps "$steps" \
        --lr 1e-3 --sample 0 >/dev/null 2>"$1.err" || fail 'ebb-train failed:' "$(cat "$1.err")"
}

# run_torch <python> <result>
run_torch() {
    # Debian's PyTorch takes whichever libblas.so.3 the loader finds; the OpenMP variant is the one that it should have.
    # Another PyTorch carries its own and is not concerned.
    LD_LIBRARY_PATH=/usr/lib/$(uname -m)-linux-gnu/openblas-openmp OMP_NUM_THREADS=$threads \
        "$1" "$root/bench/pytorch_gpt2.py" --data "$data" --threads "$threads" \
        --layers "$layers" --width "$width" --heads "$heads" --context "$context" --batch "$batch" --steps "$steps" \
        --warmup "$warmup" >"$2" || fail "PyTorch failed ($1)"
}

# summarise <folder>: prints the table, and with --save writes the result.
summarise() {
    local result=''
    if [[ -n $save ]]; then
        mkdir -p "$root/bench/results"
        result=$root/bench/results/pytorch-${heads}heads.json
    fi
    FOLDER=$1 RESULT=$result BUILD=$build TOKENS=$((batch * context)) WARMUP=$warmup THREADS=$threads LOAD=$load \
        COMMIT=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown) COMMAND=$command \
        "${pythons[0]}" - <<'PY'
import datetime, glob, json, os, platform, re, statistics, subprocess

env = os.environ
tokens = int(env["TOKENS"])


def text(path, pattern, default="unknown"):
    try:
        found = re.search(pattern, open(path).read(), re.M)
    except OSError:
        found = None
    return found.group(1).strip() if found else default


def cached(name):
    return text(env["BUILD"] + "/CMakeCache.txt", rf"^{name}:\w+=(.*)$")


ebb, fastest = [], []
for path in sorted(glob.glob(env["FOLDER"] + "/ebb.*.jsonl")):
    records = [json.loads(line) for line in open(path)]
    run = next(r for r in records if r["kind"] == "run")
    ms = [r["ms"] for r in records if r["kind"] == "step"][int(env["WARMUP"]) :]
    ebb.append(tokens / statistics.median(ms) * 1e3)
    fastest.append(tokens / min(ms) * 1e3)
torch = {}
for path in sorted(glob.glob(env["FOLDER"] + "/torch.*.json")):
    torch.setdefault(path.split(".")[-3], []).append(json.load(open(path)))

compiler = subprocess.run([cached("CMAKE_CXX_COMPILER"), "--version"], stdout=subprocess.PIPE, universal_newlines=True)
result = {
    "date": datetime.date.today().isoformat(),
    "command": env["COMMAND"],
    "commit": env["COMMIT"],
    "machine": {
        "cpu": text("/proc/cpuinfo", r"^model name\s*: (.*)$"),
        "cores": os.cpu_count(),
        "memory_kib": int(text("/proc/meminfo", r"^MemTotal:\s*(\d+)", "0")),
        "system": text("/etc/os-release", r'^PRETTY_NAME="(.*)"'),
        "kernel": platform.release(),
        "load_before": env["LOAD"],
    },
    "threads": int(env["THREADS"]),
    "ebb": {
        "compiler": compiler.stdout.splitlines()[0],
        "run": run,
        "tokens_per_s": [round(x, 1) for x in ebb],
        "tokens_per_s_fastest_step": round(max(fastest), 1),
    },
    "pytorch": [],
}


def show(name, rates, best):
    turns = ", ".join(f"{x:.0f}" for x in rates)
    print(f"{name:32} {statistics.median(rates):8.0f} tokens/s (turns: {turns}; fastest step: {best:.0f})")


rate = statistics.median(ebb)
show("ebb-train, software device", ebb, max(fastest))
for runs in torch.values():
    entry = {k: v for k, v in runs[-1].items() if k not in ("tokens_per_s", "ms_per_step", "ms_fastest_step")}
    entry["tokens_per_s"] = [r["tokens_per_s"] for r in runs]
    entry["tokens_per_s_fastest_step"] = round(max(tokens / r["ms_fastest_step"] * 1e3 for r in runs), 1)
    entry["ebb_over_pytorch"] = round(rate / statistics.median(entry["tokens_per_s"]), 3)
    entry["ebb_over_pytorch_fastest_step"] = round(max(fastest) / entry["tokens_per_s_fastest_step"], 3)
    result["pytorch"].append(entry)
    blas = ", ".join(os.path.basename(p) for p in entry["blas"]["loaded"]) or entry["blas"]["built_for"] + ", linked in"
    show("PyTorch " + entry["torch"], entry["tokens_per_s"], entry["tokens_per_s_fastest_step"])
    print(f"    BLAS {blas}; {entry['capability']}; attention by {entry['attention']}; AdamW {entry['optimizer']}")
    print(f"    ebb / PyTorch: {entry['ebb_over_pytorch']:.2f}, by fastest steps {entry['ebb_over_pytorch_fastest_step']:.2f}")
if env["RESULT"]:
    with open(env["RESULT"], "w") as out:
        json.dump(result, out, indent=2)
        out.write("\n")
    print("written to", env["RESULT"])
PY
}

main() {
    local folder round index
    parse_options 'python+ heads layers width context batch threads steps rounds data' "$@"
    check
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder as it is now
    trap "rm -rf '$folder'" EXIT
    shorten "$folder"
    load=$(cut -d ' ' -f 1-3 /proc/loadavg)
    command="bash bench/compare_pytorch.sh $*"
    for ((round = 1; round <= rounds; round++)); do
        run_ebb "$folder/ebb.$round.jsonl"
        for index in "${!pythons[@]}"; do
            run_torch "${pythons[index]}" "$folder/torch.$index.$round.json"
        done
        printf 'round %d of %d\n' "$round" "$rounds" >&2
    done
    summarise "$folder"
}

main "$@"
