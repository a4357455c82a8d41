#!/usr/bin/env bash
# try_kit.sh <build folder> FOLDER: packs a kit of what the build folder has, and runs its conformance step as on a machine with a GPU,
# the software device in the driver's place. What fails there must be what the software device cannot do on every CPU.
set -euo pipefail

build=$(cd "$1" && pwd)
folder=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rm -rf "$folder"
mkdir -p "$folder"
BUILD_FOLDER=$build bash "$here/kit.sh" "$folder/kit" --no-build
unset BUILD_FOLDER
LD_LIBRARY_PATH=$build/softgpu/lib SOFTGPU_KERNEL_PATH=$build/conformance:$build/tests/conformance SOFTGPU_DEVICES=2 \
    bash "$folder/kit/tests/gpu/run.sh" "$folder/out" --only conformance >"$folder/log" 2>&1 || true
python3 - "$folder/out/results.json" <<'PY' || { cat "$folder/log"; exit 1; }
import json, sys
results = json.load(open(sys.argv[1]))
machine = results["steps"]["conformance"]["machine"]
cases = results["steps"]["conformance"]["figures"]["cases"]
failed = [name for name, verdict in cases.items() if verdict == "FAILED" and not name.startswith("fault.")]
passed = sum(verdict == "passed" for verdict in cases.values())
print(machine["device"], machine["commit"], f"{passed} passed, failed: {failed}")
sys.exit(bool(failed) or passed < 150 or "kit" not in machine["commit"])
PY
