"""A run of `ebb-train` on the computed clock, with and without ebb: what lengths.py and graphs.py share."""

import argparse
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def arguments(about, budgets):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--profile", default="H100")
    parser.add_argument("--larger", default="50")
    parser.add_argument("--budgets", default=budgets)
    o = parser.parse_args()
    o.build = o.build.resolve()
    return o


def train(o, work, flags, **settings):
    """The rows of its log, what it said, and ebb's statistics; under ebb if there are settings. The text is WORK/text."""
    stats = work / "stats.json"
    stats.unlink(missing_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
    env |= {"LD_LIBRARY_PATH": f"{o.build}/softgpu/lib", "SOFTGPU_SCHEDULER": "deterministic", "SOFTGPU_PROFILE": o.profile, "SOFTGPU_LARGER": o.larger,
            "XDG_CACHE_HOME": str(work)}
    if settings:
        env |= {"LD_PRELOAD": f"{o.build}/lib/libebb.so", "EBB_STATS": str(stats), "EBB_PLAN_WAIT": "600000", **settings}
    command = [f"{o.build}/bin/ebb-train", "--data", str(work / "text"), *flags, "--log", str(work / "log")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    rows = [json.loads(line) for line in (work / "log").read_text().splitlines()]
    return rows, done.stderr + done.stdout, json.loads(stats.read_text()) if settings else {}
