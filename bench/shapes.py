#!/usr/bin/env python3
"""What plans for size classes cost steps of other lengths, beside one plan for all and one made for each: recorded steps, scaled, on the planner's clock.

    python3 bench/shapes.py --build build [--traces FILE,...] [--budgets 80%,60%,50%] [--lengths 100%,95%,...]

Of a recorded step all buffers that are born in it and die in it are scaled, and the times of all operations that touch one: a batch of
another length. (Attention's time grows faster; here it does not.) `one` is the plan for the whole length, which drives the shorter step
with smaller buffers in the same places; `class` is that for the next of 32 equal parts of it (ckpt/run/runner_sizes.c), which ebb drives it by;
`own` is a plan for that very length, within the same budget. All: extra time over the step's operations; `above` is what `class` takes
beyond `own`. `keeps`: all of it fits. Classes agree with the plan for the whole about what outlives the step; that is left out here: of these
traces, it has two or three buffers on the host between steps.
"""

import argparse
import gzip
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 2 << 20
CLASSES = 32
SMALL = CHUNK // 2


def read(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as f:
        return [json.loads(line) for line in f]


def scale(lines, share):
    """The trace of a step of which so much is there; where it writes is left out, because nothing here asks."""
    varies = {r["buffer"] for r in lines if "buffer" in r and r["born"] is not None and r["dies"] is not None}
    out = []
    for r in lines:
        r = dict(r)
        if "buffer" in r and r["buffer"] in varies:
            large = r["bytes"] > SMALL  # stays so: small ones lie elsewhere
            r["bytes"] = max(int(r["bytes"] * share) // 256 * 256, SMALL + 256 if large else 256)
        if "op" in r and any(a[0] in varies for a in r["access"]):
            r["access"] = [[a[0], int(a[1] * share) // 256 * 256 if a[0] in varies else a[1], a[2], 0, 0, a[5]] for a in r["access"]]
            r["ns"] = int(r["ns"] * share)
        out.append(r)
    return out


def shrink(plan, lines):
    """The plan as it drives that step: its places hold less."""
    sizes = {r["buffer"]: r["bytes"] for r in lines if "buffer" in r}
    for r in plan:
        if "place" in r and "chunks" in r and r["bytes"] > sizes.get(r["place"], r["bytes"]):
            r["bytes"] = sizes[r["place"]]
            r["chunks"] = r["chunks"][: -(-r["bytes"] // CHUNK)]
    return plan


def write(path, lines):
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))
    return path


def ebb(build, *words):
    done = subprocess.run([build / "bin/ebb", *map(str, words)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def extra(said, what):
    found = re.search(r"^time +.*\(\+?([-0-9.]+)%\)", said, re.M)
    if not found or "checked    good" not in said:
        sys.exit(f"{what}: {said}")
    return float(found[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--traces", default=",".join(f"bench/results/{name}.trace.gz" for name in ("h200-gpt2-step", "h200-llama-60")))
    parser.add_argument("--budgets", default="80%,60%,50%,40%", help="of what keeping everything of the longest step takes")
    parser.add_argument("--lengths", default="100%,95%,91%,88%,83%,75%,66%,50%", help="of the longest step")
    o = parser.parse_args()
    print("trace            budget   length        one      class        own    above   keeps")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for trace in (ROOT / name for name in o.traces.split(",")):
            lines = read(trace)
            whole = write(work / "whole", scale(lines, 1))
            keeps = int(float(re.search(r"([0-9.]+) MiB keep everything", ebb(o.build, "plan", "-b", "1000GiB", whole))[1]))
            for budget in (keeps * float(b[:-1]) / 100 for b in o.budgets.split(",")):
                mib = f"{int(budget)}MiB"
                plans = {}

                def planned(share):  # a plan for this length, and what it says
                    if share not in plans:
                        path = work / f"plan{share}"
                        step = write(work / "planned", scale(lines, share))
                        plans[share] = path, ebb(o.build, "plan", "-b", mib, "-o", path, step)
                    return plans[share]

                def by(share, step, path):  # what a step takes, driven by that plan
                    plan = write(work / "shrunk", shrink(read(planned(share)[0]), step))
                    return extra(ebb(o.build, "check", "-b", mib, path, plan), "check")

                if "time " not in planned(1.0)[1]:
                    print(f"{trace.name.split('.')[0]:16} {budget / keeps:6.0%}   no plan")
                    continue
                for share in (float(n[:-1]) / 100 for n in o.lengths.split(",")):
                    step = scale(lines, share)
                    path = write(work / "step", step)
                    said = planned(share)[1]
                    own, of_class = extra(said, "own"), by(math.ceil(share * CLASSES) / CLASSES, step, path)
                    fits = float(re.search(r"([0-9.]+) MiB keep everything", said)[1]) <= budget
                    print(f"{trace.name.split('.')[0]:16} {budget / keeps:6.0%}   {share:6.0%}   {by(1.0, step, path):+7.1f}%   {of_class:+7.1f}%   {own:+7.1f}%"
                          f"   {of_class - own:+6.1f}   {'all' if fits else ''}", flush=True)


if __name__ == "__main__":
    main()
