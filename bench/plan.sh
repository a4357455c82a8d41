#!/bin/bash
# How long the program's calls take while ebb plans a step of 10,000 launches: bench_plan on the driver that does nothing (null_driver.c),
# with plans that a thread makes and with plans that are waited for, turn by turn. The table goes to stdout; --save writes
# bench/results/plan.json.
#
#   bash bench/plan.sh [--build DIR] [--turns N] [--save]
set -euo pipefail
# shellcheck source=bench/options.sh
source "$(dirname "${BASH_SOURCE[0]}")/options.sh"
with_and_without plan "$@"
PYTHONPATH=$root/bench exec python3 -B - <<'PYTHON'
import re, subprocess
import turns


def run(wait):
    """The longest calls of the steps while ebb learns, and of those behind."""
    env = turns.environment(LD_PRELOAD=f"{turns.BUILD}/lib/libebb.so", NULL_DRIVER_BYTES=str(2300 << 20), EBB_LINK="20G",
                            EBB_HOST_BUDGET="4GiB", EBB_LOG="debug", EBB_PLAN_WAIT=wait)
    log = subprocess.run([f"{turns.BUILD}/bin/bench_plan"], env=env, capture_output=True, text=True, timeout=600, check=True).stderr
    assert re.search(r"drove [1-9]", log), f"no plan was driven:\n{log}"
    asked = log.index("ebb: making a plan")
    longest = [max(float(ms) for ms in re.findall(r"the longest call ([0-9.]+) ms", part)) for part in (log[:asked], log[asked:])]
    return dict(zip(("until a plan is asked for", "from then on"), longest))


turns.compare({"waits for the plan": "600000", "goes on": "20"}, run, "the longest call, ms")
PYTHON
