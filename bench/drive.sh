#!/bin/bash
# What a driven step costs the host: bench_drive with and without libebb.so, turn by turn, on the driver that does nothing
# (null_driver.c). The table goes to stdout; --save writes bench/results/drive.json.
#
#   bash bench/drive.sh [--build DIR] [--turns N] [--save]
#
# BENCH_MOST=60: fails if a driven launch takes more than 60 times one without ebb, on any machine: that is a call of a function that does nothing.
set -euo pipefail
# shellcheck source=bench/options.sh
source "$(dirname "${BASH_SOURCE[0]}")/options.sh"
with_and_without drive "$@"
PYTHONPATH=$root/bench exec python3 -B - <<'PYTHON'
import json, os, subprocess, tempfile
import turns

# The policies differ in what they hold, not in what a step that does not move anything costs: a plan is asked for.
ways = {"without": None, "reactive": "reactive", "driven": "sqrt"}


def run(policy):
    with tempfile.NamedTemporaryFile(suffix=".json") as stats:
        env = turns.environment()
        if policy:
            env.update(LD_PRELOAD=f"{turns.BUILD}/lib/libebb.so", EBB_POLICY=policy, EBB_LINK="20G", EBB_STATS=stats.name)
        out = subprocess.run([f"{turns.BUILD}/bin/bench_drive"], env=env, capture_output=True, text=True, timeout=600, check=True)
        steps = json.load(open(stats.name))["steps_driven"] if policy else 0
        assert (steps > 0) == (policy == "sqrt"), out.stderr
    return {name: float(ns) for name, ns in (line.split() for line in out.stdout.splitlines())}


launch = turns.compare(ways, run, "a call, ns")["launch"]
most = float(os.environ.get("BENCH_MOST", "inf"))
assert launch["driven"] <= most * launch["without"], f"a driven launch takes more than {most} times one without ebb"
PYTHON
