"""ebb-train's tokens per second and share of the GPU's peak, beside the same model in PyTorch; its kernels beside their bounds.

--software: the trainer and its kernels, tiny, without PyTorch.
"""

import json
import re
import sys

from common import ROOT, gpu_costs, json_lines, median, read_json, table, tail, train

SHAPE = {"layers": 12, "width": 768, "heads": 12, "context": 1024, "batch": 16}
TINY = {"layers": 2, "width": 64, "heads": 2, "context": 32, "batch": 4}
SHAPE_128 = {**SHAPE, "heads": 6}  # of head size 128
KERNELS = [[16, 1024, 768, 12, 50304], [16, 1024, 768, 6, 50304]]  # B, T, C, heads, V: head sizes 64 and 128
TINY_KERNELS = [[1, 32, 64, 2, 64], [1, 32, 128, 1, 64]]


def flags(shape):
    return [word for name, value in shape.items() for word in ("--" + name, value)]


def of_trainer(context, name, words, shape=None):
    shape, steps = (TINY, 6) if context.software else (shape or SHAPE, 60)
    r = train(context, "throughput", [*flags(shape), "--steps", steps, "--dtype", "bf16", *words])
    lines = [line for line in json_lines(context.work / "throughput.jsonl") if line["kind"] == "step"]
    run = r["run"]
    share = [s["tokens_per_s"] * run["flops_per_token"] / run["device_flops"] for s in lines if run.get("device_flops")]
    context.figures["trainer"] = {key: run.get(key) for key in ("flops_per_token", "device_flops", "attention", "parameters")}
    return {"name": name, "rc": r["rc"], "tokens_per_s": r["tokens_per_s"], "ms": r["ms"], "mfu": median(share[len(share) // 2 :]),
            "peak_bytes": r["peak_bytes"], "launches": lines[-1]["launches"] if lines else None, "tail": r["tail"]}


def of_pytorch(context, name, words, shape=None):
    # The trainer reads bytes: 256 classes.
    result = context.run([sys.executable, ROOT / "tests/gpu/pytorch_models.py", *flags(shape or SHAPE), "--vocab", 256, "--dropout", 0, "--steps",
                          60, "--warmup", 30, "--fast", *words], 240, **context.own_libraries())
    row, trainer = {"name": name, "rc": result["rc"]}, context.figures["trainer"]
    try:
        row.update(json.loads(result["out"].strip().splitlines()[-1]))
        if trainer["device_flops"]:  # the same model: the same FLOPs
            row["mfu"] = round(row["tokens_per_s"] * trainer["flops_per_token"] / trainer["device_flops"], 3)
    except (ValueError, IndexError):
        row["tail"] = tail(result)
    return row


def read_kernels(lines, memory):
    """Rows, of the lines of bench_kernels: each beside the rate of the device's memory (GB/s) and the peak for its type, where known."""
    rows, dtype, peak = [], None, None
    for line in lines:
        head = re.match(r"B \d+ .*  (fp32|bf16)(?:  peak ([\d.]+) GFLOP/s)?", line)
        dtype, peak = (head.group(1), float(head.group(2) or 0)) if head else (dtype, peak)
        found = re.match(r"(.+?) +([\d.]+) ms +\(median +([\d.]+)\) +([\d.]+) GB/s(?: +([\d.]+) GFLOP/s)?", line)
        if found:
            gb_s, gflop_s = float(found.group(4)), float(found.group(5) or 0)
            rows.append({"kernel": found.group(1), "dtype": dtype, "ms": float(found.group(2)), "gb_s": gb_s,
                         "of_memory": round(gb_s / memory, 3) if memory else None,
                         "tflop_s": round(gflop_s / 1e3, 2) if gflop_s else None,
                         "of_peak": round(gflop_s / peak, 3) if peak and gflop_s else None})
    return rows


def memory_rate(context):
    """GB/s of a kernel that reads and writes memory: what the step costs has found at this commit on this device, or else is measured now."""
    found = read_json(context.out / "gpu_costs.json")
    same = all(found.get("machine", {}).get(key) == context.machine.get(key) for key in ("commit", "device"))
    figures = found.get("figures", {}) if same else {}
    return (figures if "alias" in figures else gpu_costs(context, 200)[0]).get("alias", {}).get("one_address_gb_s")


def kernels(context):
    """Each of the trainer's operations beside the rate that the device's memory gives to a kernel that reads and writes, and beside the
    device's peak for its type: of tensor cores in BF16, of CUDA cores in fp32."""
    memory = memory_rate(context)
    rows, well, said = [], True, []
    for shape in TINY_KERNELS if context.software else KERNELS:
        result = context.run([context.build / "bin/bench_kernels", *shape], 150)
        found = read_kernels(result["out"].splitlines(), memory)
        rows += [{"head_size": shape[2] // shape[3], **row} for row in found]
        if not found or result["rc"]:
            well, said = False, tail(result)
    context.figures["kernels"] = {"memory_gb_s": memory, "rows": rows, "tail": said}
    return well


def step(context):
    rows = context.figures["training"] = []
    rows.append(of_trainer(context, "ebb-train --graph", ["--graph"]))
    rows.append(of_trainer(context, "ebb-train --save lean", ["--save", "lean"]))
    rows.append(of_trainer(context, "ebb-train", []))
    if not context.software:
        rows.append(of_pytorch(context, "PyTorch, eager", []))
        rows.append(of_pytorch(context, "PyTorch, compiled", ["--mode", "compile"]))
    well = kernels(context)
    if not context.software and not context.quick:
        rows.append(of_trainer(context, "ebb-train --graph, heads of 128", ["--graph"], SHAPE_128))
        rows.append(of_pytorch(context, "PyTorch, eager, heads of 128", [], SHAPE_128))
    return well and all(row["rc"] == 0 and row.get("tokens_per_s") for row in rows)


def summary(figures):
    head = ["name", "tokens_per_s", "ms", "mfu", "launches"]
    lines = [*table(head, [[row.get(key) for key in head] for row in figures["training"]]), ""]
    lines += [f"- {row['name']}: {' / '.join(row['tail'])}" for row in figures["training"] if row.get("tail")]
    k = figures.get("kernels")
    if k and k["rows"]:
        head = list(k["rows"][0])
        lines += ["", f"Kernels; one that adds to memory in place: {k['memory_gb_s']} GB/s:", "",
                  *table(head, [[row[key] for key in head] for row in k["rows"]])]
    if k and k["tail"]:
        lines += ["", f"- bench_kernels: {' / '.join(k['tail'])}"]
    return lines
