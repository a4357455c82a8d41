"""compute-sanitizer on the trainer's kernels (their tests) and on the trainer, by itself and driven by a plan of ebb's."""

import os
import re
import shutil

from common import MIB, table, tail, text_file

TOOLS = ["memcheck", "racecheck", "initcheck"]
TINY = ["--layers", 2, "--width", 128, "--heads", 2, "--context", 64, "--batch", 16, "--steps", 14, "--sample", 0, "--eval-batches", 1]


def programs(context):
    text = text_file(context)
    trainer = [context.build / "bin/ebb-train", "--data", text, "--data-kind", "text", *TINY]
    preload = {"LD_PRELOAD": str(context.build / "lib/libebb.so"), "EBB_STATS": str(context.work / "stats-%p"), "EBB_SAVE_PLAN":
               str(context.work / "plan"), "EBB_BUDGET": str(1024 * MIB)}
    kernels = ["kernels_passes", "kernels_attention", "kernels_attention_next", "kernels_attention_tensor"]
    if context.quick:
        kernels = kernels[-1:]
    yield from ((name, [context.build / "bin" / name], {}) for name in kernels)
    yield "ebb-train fp32", trainer, {}
    yield "ebb-train bf16", [*trainer, "--dtype", "bf16"], {}
    # A fixed strategy is driven also where everything fits.
    yield "ebb-train driven, sqrt", trainer, {**preload, "EBB_POLICY": "sqrt"}
    yield "ebb-train driven, offload", trainer, {**preload, "EBB_POLICY": "offload"}


def step(context):
    sanitizer = shutil.which("compute-sanitizer") or os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/compute-sanitizer")
    rows, well = context.figures.setdefault("runs", []), True
    for tool in TOOLS:
        for name, command, environment in programs(context):
            if context.left() < 5:
                rows.append({"program": name, "tool": tool, "verdict": "no time"})
                well = False
                continue
            result = context.run([sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", 9, *command], 150,
                                 **environment)
            said = result["out"] + result["err"]
            found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", said)
            verdict = "clean" if result["rc"] == 0 and found and not any(map(int, found)) else "failed"
            if result["rc"] == 124:
                verdict = "no time"
            well &= verdict == "clean"
            reports = [line for line in said.splitlines() if line.startswith("=========")]
            rows.append({"program": name, "tool": tool, "verdict": verdict, "rc": result["rc"], "errors": sum(map(int, found)),
                         "seconds": result["seconds"], "reports": [] if verdict == "clean" else reports[:40] or tail(result, 10)})
    return bool(well)


def summary(figures):
    head = ["program", "tool", "verdict", "rc", "errors", "seconds"]
    return table(head, [[row.get(key) for key in head] for row in figures["runs"]])
