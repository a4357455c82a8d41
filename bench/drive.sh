#!/bin/bash
# What a driven step costs the host: bench_drive with and without libebb.so, turn by turn, on the driver that does nothing
# (null_driver.c). The table goes to stdout; --save writes bench/results/drive.json.
#
#   bash bench/drive.sh [--build DIR] [--turns N] [--save]
set -euo pipefail
# shellcheck source=bench/options.sh
source "$(dirname "${BASH_SOURCE[0]}")/options.sh"
with_and_without drive "$@"
exec python3 - <<'PYTHON'
import datetime, json, os, platform, subprocess, tempfile

build, turns, save, command = (os.environ.pop("EBB_" + k) for k in ("BUILD", "TURNS", "SAVE", "COMMAND"))
# The policies differ in what they hold, not in what a step that does not move anything costs: a plan is asked for.
ways = {"without": None, "reactive": "reactive", "driven": "sqrt"}
load = open("/proc/loadavg").read().split()[:3]


def run(policy):
    with tempfile.NamedTemporaryFile(suffix=".json") as stats:
        env = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
        env["LD_LIBRARY_PATH"] = f"{build}/bench/null"
        if policy:
            env.update(LD_PRELOAD=f"{build}/lib/libebb.so", EBB_POLICY=policy, EBB_LINK="20G", EBB_STATS=stats.name)
        out = subprocess.run([f"{build}/bin/bench_drive"], env=env, capture_output=True, text=True, timeout=600, check=True)
        steps = json.load(open(stats.name))["steps_driven"] if policy else 0
        assert (steps > 0) == (policy == "sqrt"), out.stderr
    return {name: float(ns) for name, ns in (line.split() for line in out.stdout.splitlines())}


best = {}
for _ in range(int(turns)):
    for way, policy in ways.items():
        for name, ns in run(policy).items():
            row = best.setdefault(name, {})
            row[way] = min(row.get(way, float("inf")), ns)
print("| a call, ns | " + " | ".join(ways) + " |\n| --- " * 1 + "| --- " * len(ways) + "|")
for name, row in best.items():
    print(f"| {name} | " + " | ".join(str(row[w]) for w in ways) + " |")
if save:
    result = {
        "date": str(datetime.date.today()), "command": command.strip(),
        "commit": subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip(),
        "machine": {
            "cpu": next(l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")),
            "cores": os.cpu_count(), "kernel": platform.release(), "load_before": " ".join(load)},
        "ns": best}
    with open(save, "w") as out:
        json.dump(result, out, indent=2)
        out.write("\n")
PYTHON
