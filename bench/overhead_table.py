"""overhead_table.py WORK OUTPUT: OUTPUT.json and OUTPUT.md of what overhead.sh has planned in WORK. Exit code 1: auto is slower than a
fixed strategy somewhere, or its plans get slower with more memory."""
import datetime
import json
import os
import platform
import re
import subprocess
import sys

FIXED = ["keep", "offload", "sqrt", "selective", "recursive", "uniform", "revolve"]
TARGETS = {50: 0.03, 30: 0.12}
HIDDEN = 0.95


def best(plans, strategy):
    """The fastest of a strategy's plans, by whatever number, or None."""
    made = [p for p in plans if p["policy"].split(":")[0] == strategy and "overhead" in p]
    return min(made, key=lambda p: p["overhead"]) if made else None


def cell(plan):
    return f"{100 * plan['overhead']:.1f}" if plan and plan["overhead"] < 10 else ">1000" if plan else "-"


def table(run):
    lines = ["| activation peak | budget GiB | auto % | at least % | auto, EBB_VERIFY=1 % | hidden % | link busy % | " + " | ".join(f"{f} %" for f in FIXED[1:]) + " |",
             "| --- " * (len(FIXED) + 6) + "|"]
    for b, every in zip(run["budgets"], run["verified"]):
        auto = best(b["plans"], "auto")
        hidden = f"{100 * auto['hidden']:.1f}" if auto and auto["hidden"] is not None else ""
        busy = f"{100 * auto['link_busy']:.0f}" if auto else ""
        lines.append(f"| {b['percent']}% | {b['budget_bytes'] / 2**30:.2f} | **{cell(auto)}** | {100 * b['bound']:.1f} | {cell(best(every['plans'], 'auto'))} | {hidden} | {busy} | " +
                     " | ".join(cell(best(b["plans"], f)) for f in FIXED[1:]) + " |")
    return lines


def verdicts(runs):
    """What misses a target, and what must never be."""
    missed, wrong = [], []
    for r in runs:
        before = None
        for b in r["budgets"]:
            auto = best(b["plans"], "auto")
            others = [x for x in (best(b["plans"], f) for f in FIXED) if x]
            where = f"{r['model']} on {r['gpu']} at {b['percent']}%"
            if not auto:
                (wrong if others else missed).append(f"{where}: no plan")
                continue
            if others and min(x["step_ns"] for x in others) < auto["step_ns"] - 1:
                wrong.append(f"{where}: {min(others, key=lambda x: x['step_ns'])['policy']} is faster than auto")
            if before and auto["step_ns"] < before - 1:
                wrong.append(f"{where}: faster than with more memory")
            before = auto["step_ns"]
            if auto["overhead"] > TARGETS.get(b["percent"], 1e9):
                missed.append(f"{where}: {100 * auto['overhead']:.1f}%, not {100 * TARGETS[b['percent']]:.0f}%")
            if auto["hidden"] is not None and auto["hidden"] < HIDDEN:
                missed.append(f"{where}: {100 * auto['hidden']:.1f}% of what is copied hidden")
    return missed, wrong


def rows(head, runs):
    """JSON with a line for each budget of each run."""
    def run(r):
        facts = {key: value for key, value in r.items() if key not in ("budgets", "verified")}
        lists = (f'"{key}": [\n' + ",\n".join(map(json.dumps, r[key])) + "\n]" for key in ("budgets", "verified"))
        return json.dumps(facts)[:-1] + ", " + ", ".join(lists) + "}"
    return json.dumps(head, indent=1)[:-2] + ',\n "runs": [\n' + ",\n".join(map(run, runs)) + "\n]}\n"


def main():
    work, output = sys.argv[1:]
    models = [line.split("|") for line in os.environ["BENCH_MODELS"].splitlines()]
    gpus = [line.split("|") for line in os.environ["BENCH_GPUS"].splitlines()]
    runs = []
    for model, batch, *_ in models:
        name = "short" if os.environ["BENCH_SHORT"] == "1" else re.sub("[^A-Za-z0-9]", "-", model)
        for gpu, _, _, gib in gpus:
            path = f"{work}/{name}.{gpu}.plans.json"
            if os.path.exists(path):
                runs.append({"model": model, "batch": int(batch), "gpu": gpu, "gpu_gib": int(gib), **json.load(open(path)),
                             "verified": json.load(open(path.replace(".plans.", ".verified.")))["budgets"]})
    missed, wrong = verdicts(runs)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    head = {"date": str(datetime.date.today()), "command": "bash bench/overhead.sh", "commit": commit,
            "clock": "computed: the simulator's, on traces of the software device's clock", "planned_on": platform.machine()}
    with open(output + ".json", "w") as f:
        f.write(rows({**head, "missed": missed, "wrong": wrong}, runs))
    with open(output + ".md", "w") as f:
        f.write(f"# What budgets cost\n\n`{head['command']}`, {head['date']}, commit {commit}. Longer step in percent, by the simulator; `-`: there is no "
                "plan. Of `uniform:N` and `revolve:N` the best of several N. [../README.md](../README.md#what-budgets-cost) tells how it is made.\n")
        for r in runs:
            fits = "" if r["keep_bytes"] <= r["gpu_gib"] * 2**30 else \
                f" More than the GPU's {r['gpu_gib']} GiB." if r["budgets"][-1]["budget_bytes"] <= r["gpu_gib"] * 2**30 else \
                f" More than the GPU's {r['gpu_gib']} GiB, under every budget, too: what one would need to have."
            f.write(f"\n## {r['model']}, batch {r['batch']}, {r['gpu']}\n\n{r['operations']} operations, {r['operations_ns'] * 1e-6:.1f} ms; "
                    f"{r['keep_bytes'] / 2**30:.2f} GiB, of which {r['state_bytes'] / 2**30:.2f} are the state.{fits}\n\n")
            f.write("\n".join(table(r)) + "\n")
        f.write("\n## Targets missed\n\n" + ("\n".join(f"- {m}" for m in missed) or "None.") + "\n")
    for line in wrong:
        print("overhead_table.py:", line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
