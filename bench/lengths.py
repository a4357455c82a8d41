#!/usr/bin/env python3
"""Documents of their own length: a step of `ebb-train --pack no` without ebb, under it while no plan is driven, and as it is by default; on the computed clock.

    python3 bench/lengths.py --build build [--profile H100] [--larger 50] [--budgets 70%,50%]

Budgets are what must stay (weights, gradients, moments: 16 bytes a parameter) and a share of what the longest step takes beyond it. A step's time is the mean over
those behind FIRST, as the program measures it: learning falls out. `driven`: of all steps. The same bits are asserted.
What can be computed here is so small that a step on that GPU would be its launches' latencies: the clock takes all work and bytes for LARGER times as many.
"""

import argparse
import json
import os
import random
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST, STEPS = 60, 140
SHAPE = "--layers 4 --width 128 --heads 4 --context 128 --batch 16 --sample 0 --pack no --dropout 0.1"


def documents(path):
    """Lengths from a log-normal distribution (seed 1)."""
    draw = random.Random(1)
    with path.open("w") as f:
        for _ in range(6000):
            f.write("".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=max(1, min(127, int(draw.lognormvariate(3.2, 0.6)))))) + "\n")
    return path


def run(o, work, **settings):
    stats = work / "stats.json"
    stats.unlink(missing_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
    env |= {"LD_LIBRARY_PATH": f"{o.build}/softgpu/lib", "SOFTGPU_SCHEDULER": "deterministic", "SOFTGPU_PROFILE": o.profile, "SOFTGPU_LARGER": o.larger,
            "XDG_CACHE_HOME": str(work)}
    if settings:
        env |= {"LD_PRELOAD": f"{o.build}/lib/libebb.so", "EBB_STATS": str(stats), "EBB_PLAN_WAIT": "600000", **settings}
    command = [f"{o.build}/bin/ebb-train", "--data", str(work / "text"), *SHAPE.split(), "--steps", str(STEPS), "--dump", str(work / "dump"),
               "--log", str(work / "log")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    steps = [row for row in map(json.loads, (work / "log").read_text().splitlines()) if row["kind"] == "step"]
    return {"ms": sum(step["device_ms"] for step in steps[FIRST:]) / (STEPS - FIRST), "bits": (work / "dump").read_bytes(),
            "parameters": int(re.search(r"(\d+) parameters", done.stderr + done.stdout)[1]), "stats": json.loads(stats.read_text()) if settings else {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--profile", default="H100")
    parser.add_argument("--larger", default="50")
    parser.add_argument("--budgets", default="70%,50%")
    o = parser.parse_args()
    o.build = o.build.resolve()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        documents(work / "text")
        bare, free = run(o, work), run(o, work, EBB_POLICY="reactive")
        assert free["bits"] == bare["bits"]
        state, peak = 16 * bare["parameters"], free["stats"]["peak_bytes"]
        print(f"{o.profile}, {o.larger} times as large, ebb-train {SHAPE}: {bare['ms']:.3f} ms a step without ebb, {free['ms']:.3f} under it with all the memory ({peak / 2**20:.0f} MiB)\n"
              "budget   reactive    default   driven")
        for budget in o.budgets.split(","):
            share = float(budget[:-1]) / 100
            given = {"EBB_BUDGET": str(int(free["stats"]["overhead_bytes"] + state + (peak - state) * share))}
            reactive, usual = run(o, work, EBB_POLICY="reactive", **given), run(o, work, EBB_POLICY="auto", **given)
            assert reactive["bits"] == usual["bits"] == bare["bits"]
            print(f"{budget:>6}   {reactive['ms'] / free['ms'] - 1:+7.1%}   {usual['ms'] / free['ms'] - 1:+8.1%}   {usual['stats']['steps_driven'] / STEPS:6.0%}", flush=True)


if __name__ == "__main__":
    main()
