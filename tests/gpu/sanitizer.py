"""compute-sanitizer on the trainer's kernels (their tests) and on the trainer, by itself and driven by a plan of ebb's.

COMPUTE_SANITIZER names the program where it is not on PATH or in CUDA_HOME. On the software device there is nothing for it to look
at: --software needs the variable, and tries this script with whatever it names.
"""

import os
import re
import shutil

from common import KERNELS, read_json, table, tail, text_file

# What each is told besides (compute-sanitizer --help, 2025.3). Of calls that fail memcheck would report all: ebb asks the driver for a kernel's
# parameters until it says that there are no more, and of words that may be addresses. initcheck would see ebb hash and evict buffers whole, also where
# the program has written nothing yet.
TOOLS = {"memcheck": ["--report-api-errors", "no"], "racecheck": [],
         "initcheck": ["--check-api-memory-access", "no", "--kernel-name-exclude", "regex=ebb_(hash|tiles)"]}
NOT_OURS = ["--kernel-name-exclude", "regex=nvjet|cutlass|cublas|gemm"]  # cuBLAS's kernels
TINY = ["--layers", 2, "--width", 128, "--heads", 2, "--context", 64, "--batch", 16, "--steps", 14, "--sample", 0, "--eval-batches", 1]
BAD = 9  # the exit code that compute-sanitizer is told to give when it has found something


def programs(context):
    """name, command, whether it is to be driven"""
    trainer = [context.build / "bin/ebb-train", "--data", text_file(context), "--data-kind", "text", *TINY]
    stats = context.work / "stats"
    # A fixed strategy is driven also where everything fits.
    ebb = [context.build / "bin/ebb", "run", "--budget", "50%", "--stats", stats, "--policy"]
    if not context.software:
        yield from ((name, [context.build / "bin" / name], False) for name in (KERNELS[:1] if context.quick else KERNELS))
    yield "ebb-train bf16", [*trainer, "--dtype", "bf16"], False
    yield "ebb-train bf16 driven, sqrt", [*ebb, "sqrt", "--", *trainer, "--dtype", "bf16"], True
    if context.software:
        return
    yield "ebb-train driven, offload", [*ebb, "offload", "--", *trainer], True
    yield "ebb-train fp32", trainer, False


def find_sanitizer(context):
    named = os.environ.get("COMPUTE_SANITIZER")
    if named or context.software:
        return named
    beside = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/compute-sanitizer")
    return shutil.which("compute-sanitizer") or (beside if os.access(beside, os.X_OK) else None)


def judge(rc, said):
    """verdict and number of findings, of what the tool has printed: every process that it looked at ends with a summary,
    `ERROR SUMMARY: N errors` or `RACECHECK SUMMARY: N hazards displayed (E errors, W warnings)`."""
    found = [int(n) for n in re.findall(r"^========= (?:ERROR|RACECHECK) SUMMARY: (\d+) ", said, re.MULTILINE)]
    if rc == 124:
        return "no time", sum(found)
    if not found:
        return "not looked at", 0
    if sum(found):
        return "findings", sum(found)
    return {0: "clean", 77: "skipped"}.get(rc, "failed"), 0


def look(context, sanitizer, tool, name, command, driven):
    stats = context.work / "stats"
    stats.unlink(missing_ok=True)
    result = context.run([sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", BAD, *NOT_OURS, *TOOLS[tool], *command], 150)
    said = result["out"] + result["err"]
    verdict, findings = judge(result["rc"], said)
    steps = read_json(stats).get("steps_driven") if driven else None
    if verdict == "clean" and driven and not steps:
        verdict = "not driven"
    reports = [line for line in said.splitlines() if line.startswith("=========")]
    return {"program": name, "tool": tool, "verdict": verdict, "rc": result["rc"], "errors": findings, "steps_driven": steps,
            "seconds": result["seconds"], "reports": [] if verdict == "clean" else (reports[:40] or []) + tail(result, 10)}


def step(context):
    sanitizer = find_sanitizer(context)
    if not sanitizer:
        context.figures["missing"] = "compute-sanitizer: not on PATH, nor in CUDA_HOME; COMPUTE_SANITIZER can name it"
        return False
    rows, well = context.figures.setdefault("runs", []), True
    for tool in TOOLS:  # all programs with the one that takes least time, first
        for name, command, driven in programs(context):
            if context.left() < 5:
                rows.append({"program": name, "tool": tool, "verdict": "no time"})
            else:
                rows.append(look(context, sanitizer, tool, name, command, driven))
            well &= rows[-1]["verdict"] == "clean"
    return bool(well)


def summary(figures):
    if "missing" in figures:
        return [figures["missing"]]
    head = ["program", "tool", "verdict", "rc", "errors", "steps_driven", "seconds"]
    lines = table(head, [[row.get(key) for key in head] for row in figures["runs"]])
    for row in figures["runs"]:
        if row.get("reports"):
            lines += ["", f"{row['program']}, {row['tool']}:", "", "```", *row["reports"][:12], "```"]
    return lines
