"""What the steps share: running programs within a time, reading what they have written, and what a step gives back.

A step is a function step(context) that returns (passed, figures): figures is JSON, and as soon as something is known it belongs into
context.figures, so that a step that runs out of time leaves what it has.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20


# Tests of the trainer's kernels against a reference on the host (tests/model/kernels): first what a GPU alone can tell most of.
KERNELS = ["kernels_attention_tensor", "kernels_passes", "kernels_attention", "kernels_attention_next", "kernels_outliers"]


class Context:
    """One run of one step. `device`: cuda, software, or cpu (a trial of what needs no CUDA). `left()` seconds remain of its time;
    `save`, if given, is called whenever the figures have grown. `machine` and `command` are what the figures depend on, `host` is
    ebb's host budget (None: its default). A step whose parts are asked for one by one (pytorch) tells of each in `parts`, name -> {"status":
    ...}; an earlier call's are there already, with their figures, if commit and device are the same."""

    def __init__(self, out, build, work, device="cuda", quick=False, limit=540, models=(), save=None, machine=None, command=None,
                 host=None):
        self.out, self.build, self.work = pathlib.Path(out), pathlib.Path(build), pathlib.Path(work)
        self.device, self.software, self.quick, self.models = device, device == "software", quick, models
        self.until = time.monotonic() + limit
        self.figures, self.parts, self.save = {}, {}, save
        self.machine, self.command = machine or {}, command
        self.host, self.crashes, self.hangs = host, 0, 0
        self.work.mkdir(parents=True, exist_ok=True)

    def left(self):
        return self.until - time.monotonic()

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
        if self.software:
            env["LD_LIBRARY_PATH"] = str(self.build / "softgpu/lib")
        if self.host:
            env["EBB_HOST_BUDGET"] = self.host
        env["EBB_PLAN_WAIT"] = "600000"  # a step lasts milliseconds, making a plan seconds: with it, few steps show what a driven one takes
        env["XDG_CACHE_HOME"] = str(self.work / "cache")
        env.update(more)
        return env

    def own_libraries(self):
        """For a program that brings CUDA's libraries along: it is not to meet those that ebb's programs were given (build.sh)."""
        path = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        return {"LD_LIBRARY_PATH": ":".join(folder for folder in path if folder != str(self.build / "found/cuda"))}

    def run(self, command, limit=300, watch=None, **more):
        """Runs it; what came of it: rc (124: out of time; 127: it could not be started), out, err, seconds, with `watch`
        peak_bytes, the most memory that was seen in use, and of the first one that was out of time where its threads were. Whatever ends this call ends the program and all that it has started."""
        if self.save:
            self.save(self.figures)
        began = time.monotonic()
        limit = max(1, min(limit, self.left()))
        result = {"rc": 124, "out": "", "err": ""}
        try:
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       errors="replace", env=self.environment(**more), start_new_session=True)
        except OSError as error:
            return {**result, "rc": 127, "err": str(error), "seconds": 0, "peak_bytes": None}
        if watch:
            watch.start(process.pid)
        try:
            result["out"], result["err"] = process.communicate(timeout=limit)
            result["rc"] = process.returncode
        except subprocess.TimeoutExpired:
            self.hangs += 1
            if self.hangs == 1:
                result["stacks"] = stacks(process.pid)
            end_group(process.pid)
            result["out"], result["err"] = process.communicate()
        finally:
            end_group(process.pid)
            if watch:
                result["peak_bytes"] = watch.stop()
        result["seconds"] = round(time.monotonic() - began, 2)
        return result


def stacks(pid):
    """Where each thread of a process is, as a debugger sees it; [] where there is none."""
    debugger = shutil.which("cuda-gdb") or shutil.which("gdb")
    if not debugger:
        return []
    try:
        seen = subprocess.run([debugger, "-batch", "-nx", "-p", str(pid), "-ex", "thread apply all bt 16"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return []
    return [line for line in seen.stdout.splitlines() if line.startswith(("#", "Thread"))][:120]


def end_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # it has ended by itself


# What programs, PyTorch and ebb say when memory is what they lack; and what is said of every other end, also by a program that speaks of memory.
NO_MEMORY = re.compile(r"out of (device )?memory|OutOfMemoryError|MemoryAllocation|ALLOC_FAILED|a budget of .* would do", re.IGNORECASE)
NOT_FOR_MEMORY = re.compile(r"illegal[ _]?(memory|address|instruction)|misaligned|launch[ _]?fail|CUBLAS_STATUS_(?!ALLOC|NOT_INITIALIZED)", re.IGNORECASE)


def failure(result):
    """Why a program has failed: "no time", "no memory", or "failed", which is every other reason; None where it has not."""
    said = result["out"] + result["err"]
    if not result["rc"]:
        return None
    if result["rc"] == 124:
        return "no time"
    return "no memory" if result["rc"] > 0 and NO_MEMORY.search(said) and not NOT_FOR_MEMORY.search(said) else "failed"


def tail(result, lines=6):
    return (result["out"] + result["err"]).strip().splitlines()[-lines:]


def ebb_lines(result, most=40):
    """What ebb has said on stderr."""
    return [line for line in result["err"].splitlines() if line.startswith("ebb")][-most:]


def crash(context, result, command, budget=None, **more):
    """Of a program that a signal has ended: where, as a debugger sees it when it is run again. Once in a step; [] where there is none."""
    debugger = shutil.which("cuda-gdb") or shutil.which("gdb")
    if result["rc"] >= 0 or context.crashes or not debugger or context.left() < 30:
        return []
    context.crashes += 1
    if budget:
        command = [context.build / "bin/ebb", "run", "--budget", budget, "--", *command]
    seen = context.run([debugger, "-batch", "-nx", "-ex", "run", "-ex", "bt 24", "-ex", "info threads", "--args", *command], 120, **more)
    return (seen["out"] + seen["err"]).splitlines()[-60:]


def json_lines(path):
    try:
        return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    except (OSError, ValueError):
        return []


def read_json(path):
    try:
        return json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError):
        return {}


def median(values):
    return round(statistics.median(values), 3) if values else None


def text_file(context):
    """A text to train on, from this repository: the same on every machine of one commit."""
    path = context.work / "text"
    if not path.exists():
        parts = sorted(ROOT.glob("docs/*.md")) + sorted(ROOT.glob("ckpt/**/*.c")) + sorted(ROOT.glob("alloc/**/*.c"))
        path.write_bytes(b"".join(p.read_bytes() for p in parts)[: 2_000_000 if context.device == "cuda" else 100_000])
    return path


def close_json(text):
    """What a program that was ended while it printed an object has told: the longest beginning, up to the end of a line, that is JSON
    once what is open is closed; {} if there is none."""
    lines = text.splitlines()
    for count in range(len(lines), 0, -1):
        part, closing = "\n".join(lines[:count]).rstrip().rstrip(","), []
        for c in re.sub(r'"(\\.|[^"\\])*"', "", part):
            if c in "{[":
                closing.append("}" if c == "{" else "]")
            elif c in "}]" and closing:
                closing.pop()
        try:
            found = json.loads(part + "".join(reversed(closing)))
        except ValueError:
            continue
        return found if isinstance(found, dict) else {}
    return {}


def gpu_costs(context, limit=300):
    """bench/gpu_costs.c: what it has measured (all of it only if "right" is there), and how it went."""
    kernels = context.build / "bin/gpu_costs_kernels.fatbin"  # of a kit
    result = context.run([context.build / "bin/gpu_costs", *(["--small"] if context.software else []),
                          *([kernels] if kernels.exists() else [])], limit)
    return close_json(result["out"]), result


def train(context, name, arguments, budget=None, watch=None, limit=300):
    """ebb-train, by itself or under ebb with a budget (bytes, or a share such as 100%): what there is to compare and to tell."""
    log, stats = context.work / f"{name}.jsonl", context.work / f"{name}.stats"
    for path in (log, stats):
        path.unlink(missing_ok=True)
    command = [context.build / "bin/ebb-train", "--data", text_file(context), "--data-kind", "text", "--log", log, "--sample", 0,
               "--eval-batches", 1, *arguments]
    program = command
    if budget:
        command = [context.build / "bin/ebb", "run", "--budget", budget, "--stats", stats, "--log", "info", "--", *command]
    result = context.run(command, limit, watch)
    lines = json_lines(log)
    steps = [line for line in lines if line["kind"] == "step"]
    final = next((line for line in lines if line["kind"] == "final"), {})
    return {
        "rc": result["rc"],
        "tail": tail(result) if result["rc"] else [],
        "failure": failure(result),
        "bits": [s["loss_hex"] for s in steps] + [final.get("state_hash")],
        "ms": median([s["ms"] for s in steps[len(steps) // 2 :]]),
        "tokens_per_s": median([s["tokens_per_s"] for s in steps[len(steps) // 2 :]]),
        "peak_bytes": final.get("peak_bytes"),
        "seen_bytes": result.get("peak_bytes"),
        "run": next((line for line in lines if line["kind"] == "run"), {}),
        "stats": read_json(stats),
        "seconds": result["seconds"],
        "log": ebb_lines(result),
        "crash": crash(context, result, program, budget),
    }


def with_headroom(size):
    """The budget, bytes, in which so many are left when ebb has put its headroom aside."""
    return size + min(size // 127, 64 * MIB)


def table(head, rows):
    """A table of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join("" if c is None else str(c) for c in row) + " |" for row in rows]


def mib(value):
    return None if value is None else round(value / MIB, 1)
