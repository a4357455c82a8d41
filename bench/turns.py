"""Ways to run the same program, turn by turn: the least of each figure counts. For bench/drive.sh and bench/plan.sh, whose options
come as EBB_BUILD, EBB_TURNS, EBB_SAVE and EBB_COMMAND (options.sh)."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Callable

BUILD, TURNS, SAVE, COMMAND = (os.environ.pop("EBB_" + k) for k in ("BUILD", "TURNS", "SAVE", "COMMAND"))


def environment(**more: str) -> dict[str, str]:
    """Without options of ebb's that are set by chance, and on the driver that does nothing."""
    return {k: v for k, v in os.environ.items() if not k.startswith("EBB_")} | {"LD_LIBRARY_PATH": f"{BUILD}/bench/null"} | more


def compare(ways: dict[str, str | None], run: Callable[[str | None], dict[str, float]], heading: str) -> dict[str, dict[str, float]]:
    """`run` gives a way's figures by their names. The table goes to stdout, and what --save wants to its file."""
    load = open("/proc/loadavg").read().split()[:3]
    best: dict[str, dict[str, float]] = {}
    for _ in range(int(TURNS)):
        for way, value in ways.items():
            for name, figure in run(value).items():
                row = best.setdefault(name, {})
                row[way] = min(row.get(way, float("inf")), figure)
    print(f"| {heading} | " + " | ".join(ways) + " |\n| --- " + "| --- " * len(ways) + "|")
    for name, row in best.items():
        print(f"| {name} | " + " | ".join(str(row[w]) for w in ways) + " |")
    if not SAVE:
        return best
    result = {
        "date": str(datetime.date.today()), "command": COMMAND.strip(),
        "commit": subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip(),
        "machine": {
            "cpu": next(l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")),
            "cores": os.cpu_count(), "kernel": platform.release(), "load_before": " ".join(load)},
        heading.rsplit(", ")[-1]: best}
    with open(SAVE, "w") as out:
        json.dump(result, out, indent=2)
        out.write("\n")
    return best
