"""Unmodified PyTorch programs (pytorch_models.py) under `ebb run`, beside PyTorch's own ways to save memory.

Bits are compared with eager mode on the same allocator backend, cudaMallocAsync, which `ebb run` selects; that eager run is also
what overhead is measured by. It comes twice: what differs from itself proves nothing about others. Peaks are the process's as NVML sees it (results.json has PyTorch's own figures as well). Each of PyTorch's
ways is followed by ebb at the peak that it had; shares of what all memory takes come behind the first of them, and at the end.

--cpu: a trial of this step, with models that are tiny, on PyTorch for the CPU. Nothing is under ebb there, and no figure means anything.
"""

import importlib.util
import json
import sys
import time

import picture
from common import MIB, ROOT, ebb_lines, failure, mib, read_json, table, tail
from watch import watch_for

ASYNC = "backend:cudaMallocAsync"
BACKEND = {"PYTORCH_CUDA_ALLOC_CONF": ASYNC, "PYTORCH_ALLOC_CONF": ASYNC}
# As large as makes memory count; the Llama-like model is wider and deeper.
SHAPES = {
    "gpt2": ["--layers", 12, "--width", 768, "--heads", 12, "--context", 1024, "--batch", 16],
    "llama": ["--layers", 16, "--width", 1024, "--heads", 16, "--context", 1024, "--batch", 16, "--vocab", 32000],
    "hf-gpt2": ["--layers", 12, "--width", 768, "--heads", 12, "--context", 1024, "--batch", 8],
    "hf-llama": ["--layers", 12, "--width", 1024, "--heads", 16, "--context", 1024, "--batch", 8, "--vocab", 32000],
}
TINY = ["--layers", 2, "--width", 64, "--heads", 2, "--context", 32, "--batch", 2, "--vocab", 256, "--device", "cpu"]
# PyTorch's ways, in the order in which they are wanted when time is short. Hugging Face's models know the first alone.
WAYS = {
    "checkpoint": ["--mode", "checkpoint"],
    "save_on_cpu": ["--mode", "offload"],
    "selective checkpoint": ["--mode", "selective"],
    "compile, 0.5": ["--mode", "compile", "--memory", 0.5],
    "compile": ["--mode", "compile"],
    "compile, 0.2": ["--mode", "compile", "--memory", 0.2],
}
TOLD = ("steps_driven", "offloaded", "dropped", "evictions", "mismatches", "overhead_bytes")


def ways_for(context, model):
    names = list(WAYS)[:1] if model.startswith("hf-") else list(WAYS)
    if context.quick and context.device == "cpu":
        return [name for name in names if not name.startswith("compile")]  # which takes a minute each
    return names[:5] if context.quick else names


def run_model(context, watch, model, name, words=(), budget=None, **environment):
    """A row of the figures."""
    stats = context.work / "stats"
    stats.unlink(missing_ok=True)
    steps = 3 if context.device == "cpu" else 24 if context.quick else 40  # a plan takes some ten steps to come about
    shape = TINY if context.device == "cpu" else SHAPES[model]
    command = [sys.executable, ROOT / "tests/gpu/pytorch_models.py", "--model", model, *shape, "--steps", steps, "--warmup", steps * 2 // 3,
               *words]
    if budget:
        command = [context.build / "bin/ebb", "run", "--budget", budget, "--stats", stats, "--log", "info", "--", *command]
    result = context.run(command, 240, watch, PYTHONFAULTHANDLER="1", **context.own_libraries(), **environment)
    row = {"name": name, "rc": result["rc"], "seconds": result["seconds"], "seen_bytes": result["peak_bytes"], "seen_of": watch.way}
    try:
        row.update(json.loads(result["out"].strip().splitlines()[-1]))
    except (ValueError, IndexError):
        row["failure"] = "failed"
    row["failure"] = failure(result) or row.get("failure")
    if row["failure"]:
        row["tail"] = tail(result, 40 if result["rc"] < 0 else 8)  # of a crash, where Python was
    if budget:
        s = read_json(stats)
        row.update(under_ebb=True, budget_bytes=budget if isinstance(budget, int) else s.get("budget_bytes"), held_bytes=s.get("peak_bytes", 0) + s.get("overhead_bytes", 0),
                   **{key: s.get(key) for key in TOLD})
        row["log"] = ebb_lines(result)
    return row


def verdict(row, eager, repeatable=True):
    """Of a row: whether its bits are eager mode's (which says something only if that has the same twice), and whether it kept to its budget."""
    if row.get("failure"):  # also at its end, when everything has been told
        return {"no memory": "does not fit" if row.get("under_ebb") else "out of memory"}.get(row["failure"], row["failure"])
    if row.get("under_ebb") and not row["held_bytes"]:
        return "ebb was not there"
    if row.get("under_ebb") and max(row["seen_bytes"] or 0, row["held_bytes"]) > row["budget_bytes"]:
        return "above the budget"
    return "equal" if row["hash"] == eager.get("hash") else "other bits" if repeatable else "other bits, as eager mode"


FIRST_SHARES = (70, 50)  # percent


def shares_for(context, percents, peak, taken):
    """(name, bytes) of the budgets that are wanted besides those in `taken`, bytes; one that is as good as there is left out."""
    shares = [(f"ebb, {percent}%", peak * percent // 100) for percent in percents if percent in FIRST_SHARES or not context.quick]
    return [(name, budget) for name, budget in shares if all(abs(budget - other) > 0.02 * peak for other in taken)]


class Table:
    """The rows of a model, one for each run."""

    def __init__(self, context, model):
        self.context, self.model, self.watch = context, model, watch_for(context.device)
        self.rows = context.figures[model] = []
        self.repeatable = True

    def needs(self):
        """Seconds that another run takes at least."""
        return 20 + (self.rows[0].get("seconds", 0) if self.rows else 0)

    def add(self, name, words=(), budget=None, **environment):
        if self.context.left() < self.needs():
            self.rows.append({"name": name, "verdict": "no time"})
            return self.rows[-1]
        row = run_model(self.context, self.watch, self.model, name, words, budget, **environment)
        self.rows.append(row)
        eager = self.rows[0]
        if eager.get("ms") and row.get("ms"):
            row["overhead"] = round(row["ms"] / eager["ms"] - 1, 4)
        row["verdict"] = verdict(row, eager, self.repeatable)
        plot(self.context, self.model)
        return row


def passes(row, peak):
    """Whether a run under ebb is as it should be: what has less than half of the memory may be refused it."""
    return row["verdict"] == "equal" or row["verdict"] == "does not fit" and 2 * row["budget_bytes"] < peak


def has_result(row):
    """Whether one of PyTorch's ways was tried to its end: whatever its bits are, and having no memory is a result, too."""
    return row["verdict"] in ("equal", "other bits", "other bits, as eager mode", "out of memory")


def step_of(context, model):
    rows = Table(context, model)
    if rows.add("eager", **BACKEND)["verdict"] != "equal":
        return False
    again = rows.add("eager, again", **BACKEND)["verdict"]
    rows.repeatable = again != "other bits"
    under_ebb = context.device == "cuda"
    well, peak, taken = again == "equal", 0, []
    if under_ebb:
        probe = rows.add("ebb, all memory", budget="100%")
        well, peak = well and probe["verdict"] == "equal", probe.get("held_bytes") or rows.rows[0]["seen_bytes"]

    def add_shares(percents):
        shares = shares_for(context, percents, peak, taken) if under_ebb else []
        taken.extend(budget for _, budget in shares)
        return all([passes(rows.add(name, budget=budget), peak) for name, budget in shares])

    for name in ways_for(context, model):
        way = rows.add(name, WAYS[name], **BACKEND)
        well &= has_result(way)
        seen = way.get("seen_bytes")
        if under_ebb and seen and seen < peak and "hash" in way and all(abs(seen - t) > 16 * MIB for t in taken):
            taken.append(seen)
            well &= passes(rows.add(f"ebb, peak of {name}", budget=seen), peak)
        well &= add_shares(FIRST_SHARES)
    well &= add_shares((85, 60, 40))
    if under_ebb:
        well &= has_result(rows.add("native allocator"))
    return bool(well)


def has_transformers():
    return importlib.util.find_spec("transformers") is not None


def step(context):
    """Each model has its share of the time that is left."""
    models, until = context.models[:1] if context.quick else context.models, context.until
    for i, model in enumerate(models):
        context.until = time.monotonic() + (until - time.monotonic()) / (len(models) - i)
        part = context.parts[model] = {"status": "broken off", "machine": context.machine, "command": context.command}
        if model.startswith("hf-") and not has_transformers():
            context.figures[model] = [{"name": "transformers", "verdict": "not installed"}]
            part["status"] = "skipped"
            continue
        part["status"] = "passed" if step_of(context, model) else "failed"
    return all_well(context.parts)


def all_well(parts):
    """Of the models of this call and of earlier ones."""
    statuses = {part["status"] for part in parts.values()}
    return "passed" in statuses and statuses <= {"passed", "skipped"}


def plot(context, model):
    trial = "a trial on the CPU; " if context.device == "cpu" else ""
    rows = [r for r in context.figures[model] if r.get("seen_bytes") and r.get("overhead") is not None]
    of = ", ".join(sorted({str(r["seen_of"]) for r in rows}))
    drawing = picture.draw(f"{trial}{model}: time of a step over eager mode, by peak memory", f"peak, GiB ({of})",
                           [(r["seen_bytes"], r["overhead"], r["name"], r["verdict"]) for r in rows])
    if drawing:
        (context.out / f"pytorch-{model}.svg").write_text(drawing)


def summary(figures):
    head = ["", "bits", "ms", "overhead", "peak, MiB", "peak of", "held by ebb, MiB", "budget, MiB", "driven", "offloaded", "dropped"]
    lines = []
    for model, rows in figures.items():
        trial = "a trial on the CPU: figures mean nothing; " if any(r.get("seen_of") == "resident set" for r in rows) else ""
        cells = [[r["name"], r.get("verdict"), r.get("ms"), r.get("overhead"), mib(r.get("seen_bytes")), r.get("seen_of"),
                  mib(r.get("held_bytes")), mib(r.get("budget_bytes")), r.get("steps_driven"), r.get("offloaded"), r.get("dropped")]
                 for r in rows]
        lines += [f"{model} ({trial}pytorch-{model}.svg):", "", *table(head, cells), ""]
        lines += [f"- {r['name']}: {' / '.join(r['tail'][-8:])}" for r in rows if r.get("tail")]
    return lines
