#!/bin/bash
# What libebb.so costs per allocation and launch, and how much memory it reserves: the same programs with and
# without it, turn by turn, on the driver that does nothing (null_driver.c) and, for allocations, on softgpu's own
# pools. The table goes to stdout; --save writes bench/results/alloc.json.
#
#   bash bench/alloc.sh [--build DIR] [--turns N] [--save]
set -euo pipefail
# shellcheck source=bench/options.sh
source "$(dirname "${BASH_SOURCE[0]}")/options.sh"
with_and_without alloc "$@"
exec python3 - <<'PYTHON'
import datetime, glob, json, os, platform, subprocess

build = os.environ.pop("EBB_BUILD")
turns = int(os.environ.pop("EBB_TURNS"))
save = os.environ.pop("EBB_SAVE")
command = os.environ.pop("EBB_COMMAND").strip()
kinds = ["pytorch", "random", "two-streams", "middle", "fragment", "grow"]
traces = sorted(glob.glob("bench/traces/*.txt"))
load = open("/proc/loadavg").read().split()[:3]


def run(program, *args, ebb=True, driver="null", **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
    env.update(environment)
    env["LD_LIBRARY_PATH"] = f"{build}/bench/null" if driver == "null" else f"{build}/softgpu/lib"
    if ebb:
        env["LD_PRELOAD"] = f"{build}/lib/libebb.so"
    return subprocess.run([f"{build}/bin/{program}", *args], env=env, capture_output=True, text=True, timeout=600)


def calls(driver, rounds, *args):
    """The least of several turns, with and without in turns."""
    best = {}
    for _ in range(rounds):
        for ebb in (False, True):
            out = run("bench_alloc", *args, ebb=ebb, driver=driver)
            assert out.returncode == 0, out.stderr
            for line in out.stdout.splitlines():
                name, ns = line.split()
                pair = best.setdefault(name, [float("inf")] * 2)
                pair[ebb] = min(pair[ebb], float(ns))
    return [{"name": n, "without_ns": a, "with_ns": b, "added_ns": round(b - a, 1)} for n, (a, b) in best.items()]


def replay(what, **environment):
    out = run("bench_replay", what, "--passes", "20", **environment)
    if out.returncode == 3:
        return None
    assert out.returncode == 0, out.stderr
    words = out.stdout.split()
    row = {k: float(v) for k, v in zip(words[1::2], words[2::2])}
    return {"trace": os.path.basename(words[0]).removesuffix(".txt"), **row}


def smallest_budget(what, pages):
    """In pages: with less, something is refused, though nothing may be evicted."""
    low, high = pages - 1, 2 * pages
    while high - low > 1:
        middle = (low + high) // 2
        if replay(what, EBB_BUDGET=str(middle << 21), EBB_POLICY="keep", EBB_LOG="quiet"):
            high = middle
        else:
            low = middle
    return high


def reserved(what):
    rows = {lag: replay(what, NULL_DRIVER_LAG=str(lag)) for lag in (0, 500)}
    pages = int(rows[0]["live_pages"])
    bare = [replay(what, ebb=False)["ns_per_call"] for _ in range(3)]
    held = [replay(what)["ns_per_call"] for _ in range(3)]
    budget = smallest_budget(what, pages)
    return {"trace": rows[0]["trace"], "live_pages": pages, "calls": int(rows[0]["allocs+frees"] + rows[0]["launches"]),
            "ratio": rows[0]["ratio"], "ratio_behind_500": rows[500]["ratio"], "raw": rows[0]["raw"],
            "smallest_budget_ratio": round(budget / pages, 3),
            "added_ns_per_call": round(min(held) - min(bare), 1), "first_pass_ns_per_call": rows[0]["first_pass"]}


result = {
    "date": str(datetime.date.today()),
    "command": command,
    "commit": subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip(),
    "machine": {
        "cpu": next(l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")),
        "cores": os.cpu_count(), "kernel": platform.release(), "load_before": " ".join(load)},
    "calls": calls("null", turns),
    "calls_on_softgpu": calls("softgpu", 1, "--no-launch"),
    "replays": [reserved(t) for t in traces + kinds],
}
print("| call | without | with | added ns |\n| --- | --- | --- | --- |")
for r in result["calls"]:
    print(f"| {r['name']} | {r['without_ns']} | {r['with_ns']} | {r['added_ns']} |")
print("\n| pair on softgpu | its own pool, ns | under ebb, ns |\n| --- | --- | --- |")
for r in result["calls_on_softgpu"]:
    print(f"| {r['name']} | {r['without_ns']:.0f} | {r['with_ns']:.0f} |")
print("\n| trace | live pages | reserved/live | device 500 behind | smallest budget/live | raw | added ns per call |")
print("| --- | --- | --- | --- | --- | --- | --- |")
for r in result["replays"]:
    print(f"| {r['trace']} | {r['live_pages']} | {r['ratio']} | {r['ratio_behind_500']} | {r['smallest_budget_ratio']} | "
          f"{r['raw']} | {r['added_ns_per_call']} |")
if save:
    with open(save, "w") as out:
        json.dump(result, out, indent=2)
        out.write("\n")
PYTHON
