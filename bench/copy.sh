#!/usr/bin/env bash
# copy.sh [FOLDER]: bench_copy on the computed clock of several GPUs' profiles; results/copy-engine.json. FOLDER: the build.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:-$here/../build}
export LD_LIBRARY_PATH=$build/softgpu/lib SOFTGPU_SCHEDULER=deterministic
{
    printf '{"command": "bench/copy.sh", "clock": "computed (softgpu/driver/scheduler/clock.h)", "commit": "%s", "date": "%s", "runs": [\n' \
        "$(git -C "$here" rev-parse --short HEAD)" "$(date -u +%F)"
    comma=''
    for profile in A100 H100; do
        for shape in '64 16' '16 64' '4 128'; do
            printf '%s' "$comma"
            # shellcheck disable=SC2086
            SOFTGPU_PROFILE=$profile "$build/bin/bench_copy" $shape
            comma=','
        done
    done
    echo ']}'
} | tee "$here/results/copy-engine.json"
