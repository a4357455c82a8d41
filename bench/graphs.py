#!/usr/bin/env python3
"""`ebb-train --graph`: a step launched as graphs beside the same one launched call by call, without ebb and under it; on the computed clock.

    python3 bench/graphs.py --build build [--profile H100] [--larger 50] [--budgets 70%,50%,35%]

Budgets are shares of what the step launched call by call takes under ebb with all the memory, for both. (The trainer has a workspace for cuBLAS beside it when it
uses graphs, which the software device's cuBLAS does not touch.) A step's time is the median of the last ones, as the program measures it. The same bits are
asserted.
What can be computed here is so small that a step on that GPU would be its launches' latencies: the clock takes all work and bytes for LARGER times as many.
"""

import statistics
import tempfile
from pathlib import Path

import clocked

STEPS, FIRST = 40, 28
SHAPE = "--layers 6 --width 128 --heads 4 --context 128 --batch 32 --sample 0 --eval-batches 1 --dropout 0.1"


def run(o, work, graph, **settings):
    rows, _, stats = clocked.train(o, work, ["--data-kind", "text", *SHAPE.split(), "--steps", str(STEPS)] + ["--graph"] * graph, **settings)
    steps = [row for row in rows if row["kind"] == "step"]
    return {"ms": statistics.median(step["device_ms"] for step in steps[FIRST:]), "stats": stats,
            "bits": [step["loss_hex"] for step in steps] + [rows[-1]["state_hash"]]}


def main():
    o = clocked.arguments(__doc__, "70%,50%,35%")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "text").write_text("".join(f"In the beginning was line {i}, and it was without form.\n" for i in range(3000)))
        calls, graphs = run(o, work, False), run(o, work, True)
        free = run(o, work, False, EBB_POLICY="auto")
        peak, overhead = free["stats"]["peak_bytes"], free["stats"]["overhead_bytes"]
        assert calls["bits"] == graphs["bits"] == free["bits"]
        print(f"{o.profile}, {o.larger} times as large, ebb-train {SHAPE}: {calls['ms']:.3f} ms a step by calls, {graphs['ms']:.3f} by graphs, without ebb;"
              f" {peak / 2**20:.0f} MiB\nbudget   by calls   driven   by graphs   driven   than by calls")
        for budget in o.budgets.split(","):
            share = float(budget[:-1]) / 100
            given = {"EBB_BUDGET": str(int(overhead + peak * share))}
            by_calls, by_graphs = run(o, work, False, **given), run(o, work, True, **given)
            assert by_calls["bits"] == by_graphs["bits"] == calls["bits"]
            print(f"{budget:>6}   {by_calls['ms'] / calls['ms'] - 1:+8.1%}   {by_calls['stats']['steps_driven']:6}   {by_graphs['ms'] / calls['ms'] - 1:+9.1%}"
                  f"   {by_graphs['stats']['steps_driven']:6}   {by_graphs['ms'] / by_calls['ms'] - 1:+13.1%}", flush=True)


if __name__ == "__main__":
    main()
