"""planner_ablation.py OUTPUT.json [--percent P,P..] TRACE:LINK:MEMORY:GROUP.. -- PLANNER PART=PLANNER..: what each part of the planner
gains. PLANNER is a command that runs as bench_overhead: the planner as it is, then builds of it without one part, by that part's
name; OUTPUT.json gets a line for each, with the changes of the predicted step per group of traces.

A part may go if the mean of no group rises by 0.3%, no budget is left without a plan, and planning does not take longer. results/planner-ablation.md is made of
such files; budgets below the state (--percent -20,0) matter as much: some parts gain only there.
"""
import datetime
import json
import math
import os
import shlex
import subprocess
import sys

PERCENT = "30,40,50,60,70,80,90"


def plan(planner, trace, percents):
    """Of each budget the predicted time of auto's plan, None where there is none; and how long all of them took to make."""
    path, link, memory, _ = trace.split(":")
    done = subprocess.run([*shlex.split(planner), path, link, memory, *percents], capture_output=True, text=True,
                          env={**os.environ, "BENCH_POLICY": "auto"})
    if done.returncode:
        sys.exit(f"{planner} {path}: {done.stderr}")
    plans = [b["plans"][0] for b in json.loads(done.stdout)["budgets"]]
    return [p.get("step_ns") for p in plans], sum(p.get("planning_s", 0) for p in plans)


def compare(traces, whole, without):
    """The changes of the step without a part, in percent: of each group the mean (geometric) and the worst."""
    groups, lost, changed = {}, 0, 0
    for trace in traces:
        changes = groups.setdefault(trace.split(":")[3], [])
        for before, after in zip(whole[trace][0], without[trace][0]):
            lost += before is not None and after is None
            changed += before != after
            if before and after:
                changes.append(math.log(after / before))
    whole_s, without_s = (sum(times[t][1] for t in traces) for times in (whole, without))
    figures = {g: {"mean": round(100 * math.expm1(sum(c) / len(c)), 3), "worst": round(100 * math.expm1(max(c)), 3)} for g, c in groups.items() if c}
    return {**figures, "budgets_lost": lost, "plans_changed": changed, "planning_s": round(without_s, 2), "planning_change": round(without_s / whole_s - 1, 3)}


def main():
    arguments, planners = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
    output, percents = arguments.pop(0), PERCENT
    if arguments[0] == "--percent":
        percents = arguments[1]
        del arguments[:2]
    measure = lambda planner: {t: plan(planner, t, percents.split(",")) for t in arguments}
    whole = measure(planners[0])
    head = {"date": str(datetime.date.today()), "percent": percents, "budgets": sum(len(p) for p, _ in whole.values()),
            "planning_s": round(sum(s for _, s in whole.values()), 2), "traces": [os.path.basename(t) for t in arguments]}
    with open(output, "w") as f:
        f.write(json.dumps(head)[:-1] + ', "parts": [\n')
        for i, part in enumerate(planners[1:]):
            name, planner = part.split("=", 1)
            f.write((",\n" if i else "") + json.dumps({"without": name, **compare(arguments, whole, measure(planner))}))
            f.flush()
        f.write("\n]}\n")


if __name__ == "__main__":
    main()
