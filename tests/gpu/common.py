"""What the steps share: running programs within a time, watching the device's memory, and what a step gives back.

A step is a function step(context) that returns (passed, figures): figures is JSON, and as soon as something is known it belongs into
context.figures, so that a step that runs out of time leaves what it has.
"""

import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20


class Context:
    """One run of one step. `left()` seconds remain of its time."""

    def __init__(self, out, build, work, software, quick, limit, models):
        self.out, self.build, self.work = pathlib.Path(out), pathlib.Path(build), pathlib.Path(work)
        self.software, self.quick, self.models = software, quick, models
        self.until = time.monotonic() + limit
        self.figures = {}
        self.work.mkdir(parents=True, exist_ok=True)

    def left(self):
        return self.until - time.monotonic()

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
        if self.software:
            env["LD_LIBRARY_PATH"] = str(self.build / "softgpu/lib")
        env["XDG_CACHE_HOME"] = str(self.work / "cache")
        env.update(more)
        return env

    def run(self, command, limit=300, watch=None, **more):
        """Runs it; what came of it: rc (124: out of time), out, err, seconds, and with `watch` peak_bytes, the most device memory
        that was seen in use."""
        began = time.monotonic()
        limit = max(1, min(limit, self.left()))
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", env=self.environment(**more), start_new_session=True)
        if watch:
            watch.start(process.pid)
        try:
            out, err = process.communicate(timeout=limit)
            rc = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            rc = 124
        result = {"rc": rc, "out": out, "err": err, "seconds": round(time.monotonic() - began, 2)}
        if watch:
            result["peak_bytes"] = watch.stop()
        return result


class Watch:
    """The most device memory in use while a program runs, by NVML. Of the process where the driver tells (in a container it may
    not), else of the device, less what was in use before. None where there is no NVML."""

    class Info(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("compute", ctypes.c_uint)]

    class Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    def __init__(self):
        self.way = None
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            self.device = ctypes.c_void_p()
            assert self.nvml.nvmlInit_v2() == 0
            assert self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0
        except (OSError, AttributeError, AssertionError):
            self.nvml = None

    def of_device(self):
        memory = self.Memory()
        return memory.used if self.nvml.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory)) == 0 else 0

    def of_processes(self):
        infos, count = (self.Info * 64)(), ctypes.c_uint(64)
        if self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), infos):
            return 0
        most = 1 << 50  # larger: "not available"
        return sum(infos[i].used for i in range(count.value) if infos[i].used < most)

    def start(self, _pid):
        self.processes = self.whole = 0
        if not self.nvml:
            return
        self.before = self.of_device()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()

    def sample(self):
        while not self.over.wait(0.005):
            self.processes = max(self.processes, self.of_processes())
            self.whole = max(self.whole, self.of_device())

    def stop(self):
        if not self.nvml:
            return None
        self.over.set()
        self.thread.join()
        self.way = "process" if self.processes else "device"
        return self.processes or max(0, self.whole - self.before)


def tail(result, lines=6):
    return (result["out"] + result["err"]).strip().splitlines()[-lines:]


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
        parts = sorted(ROOT.glob("README.md")) + sorted(ROOT.glob("ckpt/**/*.c")) + sorted(ROOT.glob("alloc/*.c"))
        path.write_bytes(b"".join(p.read_bytes() for p in parts)[: 100_000 if context.software else 2_000_000])
    return path


def train(context, name, arguments, budget=None, watch=None, limit=300):
    """ebb-train, by itself or under ebb with a budget of bytes: what there is to compare and to tell."""
    log, stats = context.work / f"{name}.jsonl", context.work / f"{name}.stats"
    for path in (log, stats):
        path.unlink(missing_ok=True)
    command = [context.build / "bin/ebb-train", "--data", text_file(context), "--data-kind", "text", "--log", log, "--sample", 0,
               "--eval-batches", 1, *arguments]
    if budget:
        command = [context.build / "bin/ebb", "run", "--budget", int(budget), "--stats", stats, "--", *command]
    result = context.run(command, limit, watch)
    lines = json_lines(log)
    steps = [line for line in lines if line["kind"] == "step"]
    final = next((line for line in lines if line["kind"] == "final"), {})
    return {
        "rc": result["rc"],
        "tail": tail(result) if result["rc"] else [],
        "bits": [s["loss_hex"] for s in steps] + [final.get("state_hash")],
        "ms": median([s["ms"] for s in steps[len(steps) // 2 :]]),
        "tokens_per_s": median([s["tokens_per_s"] for s in steps[len(steps) // 2 :]]),
        "peak_bytes": final.get("peak_bytes"),
        "seen_bytes": result.get("peak_bytes"),
        "run": next((line for line in lines if line["kind"] == "run"), {}),
        "stats": read_json(stats),
    }


def table(head, rows):
    """A table of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join("" if c is None else str(c) for c in row) + " |" for row in rows]


def mib(value):
    return None if value is None else round(value / MIB, 1)
