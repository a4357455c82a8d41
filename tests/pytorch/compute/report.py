"""report.py FOLDER BUDGET...: what runs with kernels that compute have shown (run.sh --compute): the losses beside those of PyTorch's CPU
backend, the bits within each budget beside those without ebb, and which launches are proven or refused. 1 if losses or bits differ, or a
budget's plan was never driven although there is one, on any rank (the launches are the first one's)."""

import collections
import json
import pathlib
import re
import sys

# Relative. PyTorch computes products of float32 in TF32 (its "high" precision) on a GPU, and with other orders of sums.
TOLERANCE = {"fp32": 2e-3, "bf16": 2e-2, "fp16": 5e-3}

TABLES = "a buffer must stay where it is, again and again"


def read(path):
    return json.loads(path.read_text())


def launches(path):
    """Of the step in a trace: kernels by verdict, and the names of each."""
    verdicts = collections.defaultdict(collections.Counter)
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row.get("kind") == "kernel":
            verdicts[row["verdict"]][row["name"]] += 1
    return verdicts


def main():
    folder, budgets = pathlib.Path(sys.argv[1]), sys.argv[2:]
    alone, good = read(folder / "alone.json"), True
    said = f"{folder.name}: seed {alone['seed']}, {len(alone['losses'])} steps, losses {alone['losses'][0]:.4f} to {alone['losses'][-1]:.4f}"
    if (folder / "cpu.json").exists():
        cpu = read(folder / "cpu.json")
        most = max(abs(a - b) / abs(b) for a, b in zip(alone["losses"], cpu["losses"]))
        agree = most <= TOLERANCE[alone["precision"]] and alone["skipped"] == cpu["skipped"]
        good = good and agree
        said += f", beside the CPU's {most:.1e} ({'agrees' if agree else 'differs'}: {TOLERANCE[alone['precision']]:.0e})"
        if alone["precision"] == "fp16":
            said += f"; skipped {alone['skipped']}, on the CPU {cpu['skipped']}"
    print(said)
    for budget in budgets:
        ranks = sorted(folder.glob(f"{budget}.stats*"))
        if not ranks or not (folder / f"{budget}.json").read_text():
            print(f"  {budget}: failed")
            good = False
            continue
        run = read(folder / f"{budget}.json")
        same = all(run[what] == alone[what] for what in ("hash", "losses", "skipped"))
        log = (folder / f"{budget}.log").read_text()
        smallest = re.search(r"there is no plan for a budget of .*, only from (\d+ MiB) on", log)
        never = f"no plan below {smallest[1]}, reactive in all" if smallest else ""
        if "fsdp" in folder.name and TABLES in log:  # what its tables of pointers lead to
            never = f"no plan ({TABLES}), reactive in all"
        good = good and same and len(ranks) == run["ranks"]
        print(f"  {budget}: {'same bits' if same else 'OTHER BITS'}")
        for rank in ranks:
            stats = read(rank)
            good = good and bool(stats["steps_driven"] > 0 or never)
            driven = never or f"driven {stats['steps_driven']}"
            print(f"   {f' rank {rank.suffix[1:]}:' if len(ranks) > 1 else ''} {driven} of {stats['steps']} steps; "
                  f"dropped {stats['dropped']}, offloaded {stats['offloaded']} buffers; {stats['replays']} replays, {stats['mismatches']} mismatches; "
                  f"{stats['stale_words']} stale words")
        traces = sorted(folder.glob(f"{budget}.trace*"))
        for verdict, names in sorted(launches(traces[0]).items() if traces else []):
            print(f"    {verdict}: {names.total()} launches of {len(names)} kernels")
            for name, count in names.most_common() if verdict not in ("proven", "untried") else []:
                print(f"      {count} {name[:160]}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
