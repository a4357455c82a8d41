"""Unmodified PyTorch programs (pytorch_models.py) under `ebb run` at several budgets, beside PyTorch's own ways to save memory.

Bits are compared with eager mode on the same allocator backend, cudaMallocAsync, which `ebb run` selects; that eager run is also
what overhead is measured by. Peaks are the process's as NVML sees it (results.json has PyTorch's own figures as well).
"""

import json
import sys

from common import ROOT, Watch, mib, read_json, table, tail

ASYNC = "backend:cudaMallocAsync"
BACKEND = {"PYTORCH_CUDA_ALLOC_CONF": ASYNC, "PYTORCH_ALLOC_CONF": ASYNC}
# As large as makes memory count; the Llama-like model is wider and deeper.
SHAPES = {
    "gpt2": ["--layers", 12, "--width", 768, "--heads", 12, "--context", 1024, "--batch", 16],
    "llama": ["--layers", 16, "--width", 1024, "--heads", 16, "--context", 1024, "--batch", 16, "--vocab", 32000],
    "hf-gpt2": ["--layers", 12, "--width", 768, "--heads", 12, "--context", 1024, "--batch", 8],
    "hf-llama": ["--layers", 12, "--width", 1024, "--heads", 16, "--context", 1024, "--batch", 8, "--vocab", 32000],
}


def run_model(context, watch, model, name, words=(), budget=None, **environment):
    """A row of the figures."""
    stats = context.work / "stats"
    stats.unlink(missing_ok=True)
    steps = 16 if context.quick else 30
    command = [sys.executable, ROOT / "tests/gpu/pytorch_models.py", "--model", model, *SHAPES[model], "--steps", steps, "--warmup",
               steps * 2 // 3, *words]
    if budget:
        command = [context.build / "bin/ebb", "run", "--budget", int(budget), "--stats", stats, "--", *command]
    result = context.run(command, 240, watch, **environment)
    row = {"name": name, "rc": result["rc"], "seconds": result["seconds"], "seen_bytes": result["peak_bytes"], "seen_of": watch.way}
    try:
        row.update(json.loads(result["out"].strip().splitlines()[-1]))
    except (ValueError, IndexError):
        row["tail"] = tail(result, 8)
    if budget:
        s = read_json(stats)
        row.update(budget_bytes=int(budget), held_bytes=s.get("peak_bytes", 0) + s.get("overhead_bytes", 0),
                   **{key: s.get(key) for key in ("steps_driven", "offloaded", "dropped", "evictions", "mismatches", "overhead_bytes")})
        row["log"] = [line for line in result["err"].splitlines() if line.startswith("ebb")][-12:]
    return row


def step_of(context, model):
    watch, rows = Watch(), context.figures.setdefault(model, [])

    def add(name, words=(), budget=None, **environment):
        if context.left() < 20:
            rows.append({"name": name, "verdict": "no time"})
            return rows[-1]
        rows.append(run_model(context, watch, model, name, words, budget, **environment))
        row = rows[-1]
        if rows[0].get("ms") and row.get("ms"):
            row["overhead"] = round(row["ms"] / rows[0]["ms"] - 1, 4)
        row["verdict"] = "failed" if "hash" not in row else "equal" if row["hash"] == rows[0].get("hash") else "other bits"
        if budget and row["verdict"] != "failed" and max(row["seen_bytes"] or 0, row["held_bytes"]) > budget:
            row["verdict"] = "above the budget"
        return row

    eager = add("eager", **BACKEND)
    if eager["verdict"] != "equal":
        return False
    probe = add("ebb, all memory", budget=1 << 60)
    well = probe["verdict"] == "equal"
    peak = probe.get("held_bytes") or eager["seen_bytes"]
    for percent in [70, 50] if context.quick else [85, 70, 60, 50, 40]:
        row = add(f"ebb, {percent}%", budget=peak * percent // 100)
        well &= row["verdict"] == "equal" or percent < 50 and row["verdict"] == "failed" and "memory" in " ".join(row.get("tail", []))
    others = {"native allocator": [], "checkpoint": ["--mode", "checkpoint"]}
    if not model.startswith("hf-"):
        others["selective checkpoint"] = ["--mode", "selective"]
        others["save_on_cpu"] = ["--mode", "offload"]
        others["compile"] = ["--mode", "compile"]
        others["compile, 0.5"] = ["--mode", "compile", "--memory", 0.5]
        if not context.quick:
            others["compile, 0.2"] = ["--mode", "compile", "--memory", 0.2]
    for name, words in others.items():
        add(name, words, **({} if name == "native allocator" else BACKEND))
    return bool(well)


def has_transformers(context):
    return context.run([sys.executable, "-c", "import transformers"], 60)["rc"] == 0


def step(context):
    well = True
    wanted = [m for m in context.models if m in SHAPES]
    if context.quick:
        wanted = wanted[:1]
    for model in wanted:
        if model.startswith("hf-") and not has_transformers(context):
            context.figures[model] = [{"name": "transformers", "verdict": "not installed"}]
            continue
        well &= step_of(context, model)
        plot(context, model)
    return well and bool(wanted)


# ---- the picture: overhead over peak memory ----

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 420, 70, 60


def plot(context, model):
    points = [(r["seen_bytes"] / (1 << 30), 100 * r["overhead"], r["name"], r["verdict"]) for r in context.figures[model]
              if r.get("seen_bytes") and r.get("overhead") is not None]
    if not points:
        return
    right, top = max(p[0] for p in points) * 1.1, max(max(p[1] for p in points) * 1.15, 10)
    low = min(min(p[1] for p in points), 0)

    def x(v):
        return LEFT + v / right * (WIDTH - LEFT - 20)

    def y(v):
        return HEIGHT - BOTTOM - (v - low) / (top - low) * (HEIGHT - BOTTOM - 40)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="20" font-size="14">{model}: time of a step over eager mode, by peak device memory</text>',
             f'<path d="M{LEFT} 40V{y(low)}H{WIDTH - 20}" fill="none" stroke="black"/>',
             f'<text x="{WIDTH / 2}" y="{HEIGHT - 15}" text-anchor="middle">peak of the process, GiB</text>',
             f'<text transform="translate(18 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">overhead, %</text>']
    for i in range(6):
        v, w = right * i / 5, low + (top - low) * i / 5
        parts.append(f'<text x="{x(v)}" y="{y(low) + 18}" text-anchor="middle">{v:.1f}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(w) + 4}" text-anchor="end">{w:.0f}</text>')
    line = " ".join(f"{x(p[0]):.1f},{y(p[1]):.1f}" for p in sorted(points) if p[2].startswith("ebb"))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f5fbf"/>')
    for gib, overhead, name, verdict in points:
        colour = "#1f5fbf" if name.startswith("ebb") else "#b04a1f"
        note = "" if verdict == "equal" else f" ({verdict})"
        parts.append(f'<circle cx="{x(gib):.1f}" cy="{y(overhead):.1f}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{x(gib) + 6:.1f}" y="{y(overhead) - 6:.1f}">{name}{note}</text>')
    (context.out / f"pytorch-{model}.svg").write_text("\n".join(parts) + "\n</svg>\n")


def summary(figures):
    head = ["", "bits", "ms", "overhead", "process peak, MiB", "held by ebb, MiB", "budget, MiB", "driven", "offloaded", "dropped"]
    lines = []
    for model, rows in figures.items():
        cells = [[r["name"], r.get("verdict"), r.get("ms"), r.get("overhead"), mib(r.get("seen_bytes")), mib(r.get("held_bytes")),
                  mib(r.get("budget_bytes")), r.get("steps_driven"), r.get("offloaded"), r.get("dropped")] for r in rows]
        lines += [f"{model} (pytorch-{model}.svg):", "", *table(head, cells), ""]
        lines += [f"- {r['name']}: {' / '.join(r['tail'])}" for r in rows if r.get("tail")]
    return lines
