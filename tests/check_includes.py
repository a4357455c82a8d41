#!/usr/bin/env python3
"""check_includes.py: what each room may include (alloc <- offload <- ckpt/run <- hook; traces, plans, planner and checker know neither CUDA nor anything that
runs). A file follows the rule of the longest folder that it lies in."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BASE = ["alloc/base"]
RULES = {
    "alloc/base": [],
    "alloc": BASE,
    "offload": ["alloc"],
    "ckpt/trace": BASE,
    "ckpt/plan": [*BASE, "ckpt/trace"],
    "ckpt/planner": [*BASE, "ckpt/trace", "ckpt/plan", "ckpt/checker"],
    "ckpt/checker": [*BASE, "ckpt/trace", "ckpt/plan"],
    "ckpt/run": ["alloc", "offload", "ckpt"],
    "hook": ["alloc", "offload", "ckpt"],
    "cli": ["alloc", "offload", "ckpt"],
    "model": [],
    "model/base": ["model/kernels"],
    "model/options": ["model/base", "model/kernels"],
    "model/data": ["model/base", "model/kernels"],
    "model/layers": ["model/base", "model/kernels", "model/options", "model/data", "model/ranks"],
    "model/files": ["model/base", "model/kernels", "model/options", "model/data", "model/layers"],
    "model/train": ["model"],
    "softgpu": [],
}
PURE = re.compile(r"ckpt/(trace|plan|planner|checker)/")


def wrong(path):
    name = path.relative_to(ROOT).as_posix()
    room = max((r for r in RULES if name.startswith(r + "/")), key=len)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'#include ["<]([^">]+)[">]', line)
        if not found:
            continue
        target = found[1]
        ours = "/" in target and target.split("/")[0] in {r.split("/")[0] for r in RULES} and (ROOT / target).exists()
        if ours and not any(target.startswith(allowed + "/") for allowed in [room, *RULES[room]]):
            yield f"{name}:{number}: {room} may not include {target}"
        if PURE.match(name) and re.match(r"cuda|cublas|nv", target):
            yield f"{name}:{number}: {room} knows no CUDA"


def main():
    files = sorted(p for top in {r.split("/")[0] for r in RULES} for p in (ROOT / top).rglob("*") if p.suffix in (".c", ".h", ".cu", ".cuh"))
    problems = [problem for path in files if any(path.is_relative_to(ROOT / r) for r in RULES) for problem in wrong(path)]
    print(*problems, f"{len(files)} files, {len(problems)} includes in a wrong direction", sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
