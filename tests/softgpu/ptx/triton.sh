#!/bin/bash
# triton.sh PROGRAM OUT: kernels of triton_kernels.py, compiled by Triton into OUT, are read by ptx_corpus. 77: no Triton.
set -e
program=$1 out=$2
python3 -c 'import triton' 2> /dev/null || { echo "skipped: Triton is not installed"; exit 77; }
rm -rf "$out"
mkdir -p "$out"
TRITON_CACHE_DIR=$out/cache python3 "$(dirname "$0")/triton_kernels.py" "$out"
"$program" "$out"/*.ptx
