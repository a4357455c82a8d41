#!/usr/bin/env bash
# preset.sh <build folder>: the preset `release` configures with the toolkit that the build folder has: machine code for every architecture
# that is in packages, PTX of the last, and a software device for any recent x86-64.
set -euo pipefail

build=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

nvcc=$(sed -n 's/^CUDAToolkit_NVCC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
cd "$root"
cmake --preset release -B "$folder" -G "$generator" -DCUDAToolkit_ROOT="${nvcc%/bin/nvcc}" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }

commands=$(find "$folder" \( -name build.ninja -o -name build.make -o -name compile_commands.json \) -exec cat {} +)
failed=0
for arch in 80 86 89 90 100 120; do
    [[ $("$nvcc" --list-gpu-code) != *sm_$arch* || $commands == *code=sm_$arch* ]] || { echo "nothing is compiled for sm_$arch"; failed=1; }
done
[[ $commands == *arch=compute_120,code=compute_120* || $("$nvcc" --list-gpu-code) != *sm_120* ]] || { echo 'no PTX for newer devices'; failed=1; }
[[ $commands == *-march=x86-64-v3* ]] || { echo 'nothing is compiled for x86-64-v3'; failed=1; }
! grep -e -march=native "$folder/compile_commands.json" | grep -v bench_roof || { echo 'is compiled for this CPU alone'; failed=1; }
exit $failed
