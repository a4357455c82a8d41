"""Runs the steps one after the other, each in a process of its own, and writes results.json and summary.md as they go (run.sh)."""

import argparse
import datetime
import importlib
import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import traceback

import device
from common import ROOT, Context

STEPS = ["facts", "conformance", "kernels", "costs", "differential", "pytorch", "throughput", "sanitizer"]
MODELS = ["gpt2", "llama", "hf-gpt2", "hf-llama"]
# What can be tried without a GPU, and how much time a step gets at least of what is left for all.
WITHOUT = {"cuda": STEPS, "software": ["facts", "conformance", "kernels", "costs", "differential", "throughput", "sanitizer"], "cpu": ["pytorch"]}
LEAST_SECONDS = 40


def limit_of(name, arguments):
    """Seconds of a step."""
    if arguments.limit:
        return arguments.limit
    if name == "facts":
        return 360
    return 1200 * len(arguments.models.split(",")) if name == "pytorch" and not arguments.quick else 540


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout.strip().splitlines()[-1]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return None


def machine(arguments):
    """Whatever a figure depends on."""
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    nvcc = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")
    kit = pathlib.Path(arguments.build) / "commit"  # where kit.sh has packed what was built elsewhere
    about = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
             "commit": kit.read_text().strip() if kit.exists() else first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
             "toolkit": first_line([nvcc, "--version"]) or first_line(["nvcc", "--version"]),
             "cpu": found.group(1) if found else None, "cores": multiprocessing.cpu_count(),
             "host_memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20}
    about.update({"cuda": device.about, "software": lambda: {"device": "software device"},
                  "cpu": lambda: {"device": "none: a trial of the scripts on the CPU"}}[arguments.device]())
    if arguments.device != "software":
        for name in ("torch", "transformers"):
            about[name] = first_line([sys.executable, "-c", f"import importlib.metadata as m; print(m.version('{name}'))"])
    return about


def save(path, result):
    """Whole or not at all: whoever ends this process leaves a file that can be read."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(result))
    fresh.replace(path)


def child(name, arguments, limit, path, about, before):
    """The step itself, on the machine `about`, with what `before`, an entry of earlier, has to go on from. When its time is up it is told
    so by SIGALRM, and leaves the figures that it has."""
    result = {"status": "broken off", "figures": {}}
    one_at_a_time = threading.RLock()  # a step may run programs on several threads

    def keep(figures):
        with one_at_a_time:
            result["figures"] = figures
            if context.parts:
                result["parts"] = context.parts
            save(path, result)

    def too_late(number, _frame):
        raise OutOfTime(f"not done in {limit} s" if number == signal.SIGALRM else "told to stop")

    context = Context(arguments.out, arguments.build, pathlib.Path(arguments.build) / "gpu" / name, arguments.device, arguments.quick,
                      limit, arguments.models.split(","), keep, about, arguments.command, arguments.host)
    context.figures.update(before.get("figures", {}))
    context.parts.update(before.get("parts", {}))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent passes it on
    signal.signal(signal.SIGALRM, too_late)
    signal.signal(signal.SIGTERM, too_late)
    signal.alarm(limit + 5)
    try:
        result["status"] = "passed" if importlib.import_module(name).step(context) else "failed"
    except Exception:  # whatever it is, it is the step's failure, and told
        result.update(status="failed", error=traceback.format_exc().splitlines()[-4:])
    signal.alarm(0)
    keep(context.figures)


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def entries(path):
    """The entries of a results.json, by step, and those that they have replaced."""
    found = read(path) or {}
    steps = found.get("steps", {})
    for entry in steps.values():  # of a file with one machine for all of them
        entry.setdefault("machine", found.get("machine", {}))
    return steps, found.get("earlier", {})


def goes_on(entry, about):
    """Of an earlier call's entry, what this one's figures may stand beside: those of parts, of the same commit on the same device."""
    same = all(entry.get("machine", {}).get(key) == about.get(key) for key in ("commit", "device"))
    return entry if same and entry.get("parts") else {}


class OutOfTime(Exception):
    """Raised wherever the step is when it has to end."""


class Run:
    """All of a call: its results, and the step that is running."""

    def __init__(self, arguments):
        self.arguments, self.out = arguments, pathlib.Path(arguments.out)
        self.until = time.monotonic() + arguments.total
        self.process = None
        self.holder = device.hold() if arguments.device == "cuda" else None
        self.machine = machine(arguments)
        steps, earlier = entries(self.out / "results.json")
        self.results = {"steps": steps, "earlier": earlier}
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGINT, self.stop)

    def stop(self, _number, _frame):
        """Told to end: the step leaves what it has, and its programs end."""
        self.until = 0
        if self.process and self.process.is_alive():
            self.process.terminate()

    def note(self, name, result, seconds):
        self.results["steps"][name] = {**result, "seconds": round(seconds, 1), "command": self.arguments.command, "machine": self.machine}
        write(self.out, self.results)

    def set_aside(self, name):
        """What an earlier call has shown of this step stays, under "earlier": the last that has passed, or else the last with figures."""
        old, older = self.results["steps"].get(name, {}), self.results["earlier"].get(name, {})
        if old.get("figures") and (old["status"] == "passed" or older.get("status") != "passed"):
            self.results["earlier"][name] = old

    def build(self):
        """How the build went, if there was one: what it has not made fails by itself."""
        if not self.arguments.built:
            return True
        status, seconds, log = self.arguments.built
        lines = pathlib.Path(log).read_text(errors="replace").splitlines() if pathlib.Path(log).exists() else ["it has left no log"]
        result = {"status": "passed"}
        if int(status):
            told = [line for line in lines if re.search("rror|FAILED|ould not|install ", line)]
            result = {"status": "failed", "reason": "not done in time" if int(status) in (124, 137) else f"exit code {status}",
                      "error": ["what it has not made is missing, or of an earlier build", *told[-20:], "...", *lines[-10:]]}
        self.note("build", result, float(seconds))
        return not int(status)

    def step(self, name, limit):
        if name not in WITHOUT[self.arguments.device]:
            return {"status": "skipped", "reason": "needs a GPU"}, 0
        if name == "sanitizer" and self.arguments.device == "software" and "COMPUTE_SANITIZER" not in os.environ:
            return {"status": "skipped", "reason": "nothing for compute-sanitizer to look at (COMPUTE_SANITIZER)"}, 0
        if limit < 5:
            return {"status": "not run", "reason": "no time was left"}, 0
        before = goes_on(self.results["steps"].get(name, {}), self.machine)
        if not before or set(before["parts"]) & set(self.arguments.models.split(",")):
            self.set_aside(name)
        began, path = time.monotonic(), self.out / f".{name}.json"
        path.unlink(missing_ok=True)
        self.process = multiprocessing.get_context("fork").Process(target=child, args=(name, self.arguments, limit, path, self.machine, before))
        self.process.start()
        seen = None
        while self.process.is_alive() and time.monotonic() < began + limit + 30:
            self.process.join(2)
            now = read(path)
            if now and now != seen:  # who kills all of this finds what there was
                seen = now
                self.note(name, now, time.monotonic() - began)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        result = read(path) or {**{key: before[key] for key in ("figures", "parts") if key in before}, "status": "failed",
                                "error": [f"the step ended with {self.process.exitcode} and left nothing"]}
        path.unlink(missing_ok=True)
        return result, time.monotonic() - began

    def all(self, wanted):
        statuses = {"build": "passed" if self.build() else "failed"}
        for i, name in enumerate(wanted):
            print(f"{name} ...", flush=True)
            left = self.until - time.monotonic() - LEAST_SECONDS * (len(wanted) - 1 - i)
            result, seconds = self.step(name, int(min(limit_of(name, self.arguments), max(left, 0))))
            statuses[name] = result["status"]
            if result["status"] not in ("skipped", "not run") or not self.results["steps"].get(name, {}).get("figures"):
                self.note(name, result, seconds)  # what was not begun replaces nothing
            print(f"{name}: {result['status']}{': ' + result['reason'] if 'reason' in result else ''}, {seconds:.1f} s", flush=True)
        print((self.out / "summary.md").read_text())
        return all(status in ("passed", "skipped") for status in statuses.values())


def about_machines(results):
    """Lines on the machines, each with the steps that were run there."""
    groups = {}
    for name, r in results["steps"].items():
        known = {key: value for key, value in r.get("machine", {}).items() if key != "date"}
        groups.setdefault(json.dumps(known), (known, []))[1].append(name)
    lines = ["# On " + ", ".join(dict.fromkeys(str(known.get("device")) for known, _ in groups.values())), ""]
    for known, names in groups.values():
        lines += ([", ".join(names) + ":", ""] if len(groups) > 1 else []) + [f"- {key}: {value}" for key, value in known.items()] + [""]
    return lines


def write(out, results):
    fresh = out / "results.json.new"
    fresh.write_text(json.dumps(results, indent=1) + "\n")
    fresh.replace(out / "results.json")
    lines = [*about_machines(results), "| step | status | seconds | date | command |", "| --- | --- | --- | --- | --- |"]
    for name, r in results["steps"].items():
        entry = [(name, r), *((f"{name}, {part}", p) for part, p in r.get("parts", {}).items())]
        if name in results.get("earlier", {}):
            entry.append((f"{name}, earlier", results["earlier"][name]))
        lines += [f"| {n} | {e['status']}{': ' + e['reason'] if 'reason' in e else ''} | {e.get('seconds', '')} | "
                  f"{e.get('machine', {}).get('date', '')} | `{e.get('command', '')}` |" for n, e in entry]
    for name, r in results["steps"].items():
        lines += ["", f"## {name}: {r['status']}", ""]
        if "error" in r:
            lines += ["```", *r["error"], "```", ""]
        try:
            lines += importlib.import_module(name).summary(r["figures"]) if r.get("figures") else []
        except Exception:  # figures of a step that broke off may lack anything
            lines += ["(figures are incomplete: results.json)"]
    (out / "summary.md").write_text("\n".join(lines) + "\n")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="run.sh")
    for name in ("out", "build", "command"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--only", default=",".join(STEPS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--limit", type=int)
    parser.add_argument("--total", type=int, default=100000)
    parser.add_argument("--host", default=os.environ.get("EBB_HOST_BUDGET"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--software", dest="device", action="store_const", const="software", default="cuda")
    parser.add_argument("--cpu", dest="device", action="store_const", const="cpu")
    parser.add_argument("--built", nargs=3, metavar=("STATUS", "SECONDS", "LOG"), help="how the build went")
    parser.add_argument("--check", action="store_true", help="the arguments alone")
    arguments = parser.parse_args()
    for given, known in ((arguments.only, STEPS), (arguments.models, MODELS)):
        unknown = [name for name in given.split(",") if name not in known]
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.host and not re.fullmatch(r"\d+([KMGT](i?B)?)?", arguments.host):
        parser.error("--host is a size, as 48GiB")
    if arguments.limit is not None and arguments.limit < 1 or arguments.total < 1:
        parser.error("--limit and --total are seconds")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.check:
        return 0
    return 0 if Run(arguments).all(arguments.only.split(",")) else 1


if __name__ == "__main__":
    sys.exit(main())
