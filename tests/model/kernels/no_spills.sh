#!/usr/bin/env bash
# no_spills.sh NVCC ARCHITECTURES FILE.cu...: compiled as the build does, for each of these (80;90), no kernel of these files spills a register.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
nvcc=$1 architectures=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
codes=()
for architecture in ${architectures//;/ }; do
    codes+=("-gencode=arch=compute_$architecture,code=sm_$architecture")
done
failed=0
for file; do
    "$nvcc" -std=c++17 -O3 --generate-line-info -I "$root/softgpu/include" "${codes[@]}" --threads 2 -Xptxas -v -fatbin "$file" -o "$folder/module" 2>"$folder/said"
    kernels=$(grep -c 'bytes spill stores' "$folder/said" || true)
    spilling=$(grep 'bytes spill stores' "$folder/said" | grep -vc ' 0 bytes spill stores, 0 bytes spill loads' || true)
    echo "${file##*/}: $kernels kernels of ${#codes[@]} architectures, $spilling spill"
    ((kernels >= ${#codes[@]} && spilling == 0)) || { failed=1; grep -B2 'bytes spill stores' "$folder/said" | head -n 60; }
done
exit $failed
