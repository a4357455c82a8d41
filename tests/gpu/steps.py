"""Runs the steps one after the other, each in a process of its own, and writes results.json and summary.md after each (run.sh)."""

import argparse
import datetime
import importlib
import json
import multiprocessing
import pathlib
import re
import signal
import subprocess
import sys
import time
import traceback

from common import ROOT, Context

STEPS = ["conformance", "costs", "differential", "pytorch", "throughput", "sanitizer"]
SOFTWARE = ["conformance", "costs", "differential"]


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout.strip().splitlines()[-1]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return None


def machine(software):
    """Whatever a figure depends on."""
    about = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
             "commit": first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
             "toolkit": first_line(["nvcc", "--version"]) or first_line(["/usr/local/cuda/bin/nvcc", "--version"])}
    if software:
        return {**about, "device": "software device"}
    asked = "name,driver_version,memory.total,compute_cap,pcie.link.gen.current,pcie.link.width.current"
    names = ["device", "driver", "memory", "compute_capability", "pcie_generation", "pcie_width"]
    values = (first_line(["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"]) or "").split(", ")
    about.update(zip(names, values))
    about["torch"] = first_line([sys.executable, "-c", "import torch; print(torch.__version__)"])
    about["transformers"] = first_line([sys.executable, "-c", "import transformers; print(transformers.__version__)"])
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    about["cpu"] = found.group(1) if found else None
    about["cores"] = multiprocessing.cpu_count()
    return about


def child(name, arguments, limit, path):
    """The step itself. When its time is up it is told so by SIGALRM, and leaves the figures that it has."""
    context = Context(arguments.out, arguments.build, pathlib.Path(arguments.build) / "gpu" / name, arguments.software, arguments.quick, limit,
                      arguments.models.split(","))
    result = {"status": "failed"}

    def too_late(_signal, _frame):
        raise TimeoutError(f"not done in {limit} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(limit + 5)
    try:
        result["status"] = "passed" if importlib.import_module(name).step(context) else "failed"
    except Exception:  # whatever it is, it is the step's failure, and told
        result["error"] = traceback.format_exc().splitlines()[-4:]
    signal.alarm(0)
    result["figures"] = context.figures
    path.write_text(json.dumps(result))


def run_step(name, arguments, out):
    if arguments.software and name not in SOFTWARE:
        return {"status": "skipped", "reason": "needs a GPU", "seconds": 0}
    began, path = time.monotonic(), out / f".{name}.json"
    path.unlink(missing_ok=True)
    process = multiprocessing.Process(target=child, args=(name, arguments, arguments.limit, path))
    process.start()
    process.join(arguments.limit + 30)
    if process.is_alive():
        process.kill()
        process.join()
    try:
        result = json.loads(path.read_text())
        path.unlink()
    except (OSError, ValueError):
        result = {"status": "failed", "error": [f"the step ended with {process.exitcode} and left nothing"]}
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def write(out, results):
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    lines = ["# On " + str(results["machine"].get("device")), ""]
    lines += [f"- {key}: {value}" for key, value in results["machine"].items()] + [f"- command: `{results['command']}`", ""]
    lines += ["| step | status | seconds |", "| --- | --- | --- |"]
    lines += [f"| {name} | {r['status']}{': ' + r['reason'] if 'reason' in r else ''} | {r['seconds']} |"
              for name, r in results["steps"].items()]
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
    parser = argparse.ArgumentParser()
    for name in ("out", "build", "command"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--only", default=",".join(STEPS))
    parser.add_argument("--models", default="gpt2,llama,hf-gpt2,hf-llama")
    parser.add_argument("--limit", type=int, default=540)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--software", action="store_true")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only.split(",") if name not in STEPS]
    if unknown:
        parser.error(f"no such step: {', '.join(unknown)}; there are {', '.join(STEPS)}")
    return arguments


def main():
    arguments = parse_arguments()
    out = pathlib.Path(arguments.out)
    results = {"machine": machine(arguments.software), "command": arguments.command, "steps": {}}
    try:
        results["steps"] = json.loads((out / "results.json").read_text())["steps"]
    except (OSError, ValueError, KeyError):
        pass
    wanted = arguments.only.split(",")
    for name in wanted:
        print(f"{name} ...", flush=True)
        results["steps"][name] = {**run_step(name, arguments, out), "command": arguments.command}
        write(out, results)
        print(f"{name}: {results['steps'][name]['status']}, {results['steps'][name]['seconds']} s", flush=True)
    print((out / "summary.md").read_text())
    return 0 if all(results["steps"][name]["status"] in ("passed", "skipped") for name in wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
