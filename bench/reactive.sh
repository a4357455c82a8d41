#!/usr/bin/env bash
# reactive.sh [--build FOLDER] [--policy NAME] [--label NAME] [--baseline FILE] [PROFILE..]: what the reactive half of ebb costs ebb-train on the
# software device's computed clock (softgpu/driver/scheduler/clock.h), at 70, 50 and 40% of the activation peak above what must stay
# (weights, gradients, moments: 16 bytes a parameter). No plan is driven. Written to results/reactive-LABEL.json.
#
# A step's time is that of the steps between FIRST and LAST, by two runs: what comes before (setting up, learning, the first
# contents that are made again, which keep a copy) and behind (evaluation) falls out; so does the measuring of the link, which
# a run before all others has done. The same bits are asserted. EBB_LINK is left to be measured, on the same clock. --baseline takes the
# times without a budget from a result of the same program (the clock is computed: they would come out the same).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../build policy=reactive label=now baseline='' profiles=()
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift 2 ;;
    --policy) policy=$2; shift 2 ;;
    --label) label=$2; shift 2 ;;
    --baseline) baseline=$(realpath "$2"); shift 2 ;;
    -*) echo "usage: bash bench/reactive.sh [--build FOLDER] [--policy NAME] [--label NAME] [--baseline FILE] [PROFILE..]" >&2; exit 2 ;;
    *) profiles+=("$1"); shift ;;
    esac
done
build=$(cd "$build" && pwd)
export BENCH_BUILD=$build BENCH_BASELINE=$baseline BENCH_POLICY=$policy BENCH_LABEL=$label BENCH_PROFILES="${profiles[*]:-H100 RTX4090}"
cd "$here/.."
exec python3 - <<'PYTHON'
import datetime, json, os, re, subprocess, tempfile

build, policy, label = (os.environ["BENCH_" + k] for k in ("BUILD", "POLICY", "LABEL"))
profiles = os.environ["BENCH_PROFILES"].split()
FIRST, LAST = 12, 15
SHAPE = "--layers 4 --width 128 --heads 4 --context 128 --batch 32 --sample 0"
KEYS = ["evictions", "fetches", "clean_evictions", "bytes_out", "bytes_in", "peak_bytes", "budget_bytes", "overhead_bytes", "live_peak_bytes",
        "replays", "rebuilt", "mismatches", "steps_driven"]
folder = tempfile.mkdtemp()
text = f"{folder}/text"
with open(text, "w") as f:
    f.write(" ".join(str(i) for i in range(30000)))


def run(profile, steps, **environment):
    stats = f"{folder}/stats.json"
    if os.path.exists(stats):
        os.remove(stats)
    env = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
    env.update(LD_LIBRARY_PATH=f"{build}/softgpu/lib", SOFTGPU_SCHEDULER="deterministic", SOFTGPU_PROFILE=profile, SOFTGPU_LOG="2",
               XDG_CACHE_HOME=folder, **environment)
    if "LD_PRELOAD" in env:
        env.update(EBB_STATS=stats, EBB_LOG="info")
    command = [f"{build}/bin/ebb-train", "--data", text, *SHAPE.split(), "--steps", str(steps), "--dump", f"{folder}/dump",
               "--log", f"{folder}/log"]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=3600)
    assert out.returncode == 0, out.stderr
    r = {"ms": float(re.search(r"taken ([0-9.]+) ms of virtual time", out.stderr).group(1)), "log": out.stderr,
         "bits": subprocess.check_output(["sha256sum", f"{folder}/dump"], text=True).split()[0],
         "parameters": int(re.search(r"(\d+) parameters", out.stderr + out.stdout).group(1))}
    if os.path.exists(stats):
        r["stats"] = json.load(open(stats))
    return r


def measure(profile, **environment):
    a, b = (run(profile, n, **environment) for n in (FIRST, LAST))
    r = {"step_ms": round((b["ms"] - a["ms"]) / (LAST - FIRST), 4), "bits": b["bits"], "parameters": b["parameters"]}
    if "stats" in b:
        r["stats"] = b["stats"]
        r["per_step"] = {k: (b["stats"][k] - a["stats"][k]) / (LAST - FIRST) for k in ("evictions", "fetches", "bytes_out", "bytes_in")
                         + tuple(k for k in ("ahead", "reactive_replays", "reactive_drops") if k in b["stats"])}
    return r


def without_budget(profile):
    """Times of a step without and with ebb, peak, what must stay, and what of the device is not ebb's."""
    if os.environ["BENCH_BASELINE"]:
        old = json.load(open(os.environ["BENCH_BASELINE"]))
        assert old["program"] == f"ebb-train {SHAPE}"
        row = next(r for r in old["runs"] if r["profile"] == profile)
        overhead = row["budgets"][0]["in_all"]["overhead_bytes"]
        return run(profile, LAST)["bits"], row["step_ms_without_ebb"], row["step_ms"], row["peak_bytes"], row["state_bytes"], overhead
    bare = measure(profile)
    free = measure(profile, LD_PRELOAD=library, EBB_POLICY="reactive")
    assert free["bits"] == bare["bits"] and not free["stats"]["evictions"]
    return (bare["bits"], bare["step_ms"], free["step_ms"], free["stats"]["peak_bytes"], 16 * bare["parameters"],
            free["stats"]["overhead_bytes"])


library = f"{build}/lib/libebb.so"
rows = []
for profile in profiles:
    bits, bare_ms, free_ms, peak, state, overhead_bytes = without_budget(profile)
    print(f"{profile}: a step takes {bare_ms:.3f} ms, under ebb {free_ms:.3f}; peak {peak / 2**20:.1f} MiB, of which "
          f"{state / 2**20:.1f} must stay", flush=True)
    row = {"profile": profile, "step_ms_without_ebb": bare_ms, "step_ms": free_ms, "peak_bytes": peak,
           "state_bytes": state, "budgets": []}
    run(profile, FIRST, LD_PRELOAD=library, EBB_POLICY=policy, EBB_BUDGET=str(int(overhead_bytes + state + (peak - state) / 2)))
    wanted = [(percent, "both", {}) for percent in (70, 50, 40)]
    if policy != "reactive":
        wanted += [(50, "offload", {"EBB_RECOMPUTE": "0"}), (50, "recompute", {"EBB_OFFLOAD": "0"})]
    for percent, name, options in wanted:
        budget = int(overhead_bytes + state + (peak - state) * percent / 100)
        r = measure(profile, LD_PRELOAD=library, EBB_POLICY=policy, EBB_BUDGET=str(budget), **options)
        assert r["bits"] == bits, (profile, percent, name)
        assert r["stats"]["steps_driven"] == 0 and r["stats"]["peak_bytes"] <= budget
        overhead = r["step_ms"] / free_ms - 1
        print(f"  {percent}%, {name}: {r['step_ms']:.3f} ms a step, {100 * overhead:.0f}% more; " +
              ", ".join(f"{k} {v / 2**20:.1f} MiB" if "bytes" in k else f"{k} {v:.1f}" for k, v in r["per_step"].items()), flush=True)
        row["budgets"].append({"percent": percent, "means": name, "budget_bytes": budget, "step_ms": r["step_ms"],
                               "overhead": round(overhead, 4), "per_step": r["per_step"],
                               "in_all": {k: r["stats"][k] for k in KEYS if k in r["stats"]}})
    rows.append(row)

result = {"date": str(datetime.date.today()), "command": f"bash bench/reactive.sh --policy {policy} --label {label} {' '.join(profiles)}",
          "commit": subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip(),
          "clock": "computed (softgpu/driver/scheduler/clock.h): the same on every machine", "program": f"ebb-train {SHAPE}",
          "steps_measured": [FIRST, LAST], "policy": policy, "runs": rows}
with open(f"bench/results/reactive-{label}.json", "w") as f:
    json.dump(result, f, indent=1)
    f.write("\n")
PYTHON
