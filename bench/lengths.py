#!/usr/bin/env python3
"""Documents of their own length: a step of `ebb-train --pack no` without ebb, under it while no plan is driven, and as it is by default; on the computed clock.

    python3 bench/lengths.py --build build [--profile H100] [--larger 50] [--budgets 70%,50%]

Budgets are what must stay (weights, gradients, moments: 16 bytes a parameter) and a share of what the longest step takes beyond it. A step's time is the mean over
those behind FIRST, as the program measures it: learning falls out. `driven`: of all steps. The same bits are asserted.
What can be computed here is so small that a step on that GPU would be its launches' latencies: the clock takes all work and bytes for LARGER times as many.
"""

import random
import re
import tempfile
from pathlib import Path

import clocked

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
    rows, said, stats = clocked.train(o, work, [*SHAPE.split(), "--steps", str(STEPS), "--dump", str(work / "dump")], **settings)
    steps = [row for row in rows if row["kind"] == "step"]
    return {"ms": sum(step["device_ms"] for step in steps[FIRST:]) / (STEPS - FIRST), "bits": (work / "dump").read_bytes(),
            "parameters": int(re.search(r"(\d+) parameters", said)[1]), "stats": stats}


def main():
    o = clocked.arguments(__doc__, "70%,50%")
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
