#!/bin/bash
# triton.sh PROGRAM OUT: kernels of triton_kernels.py, compiled by Triton into OUT, are read by ptx_corpus; training steps of a small GPT-2
# (triton_step.py) compute on the software device as NumPy has them. 77: no Triton, or no NumPy.
set -e
program=$1 out=$2 here=$(dirname "$0")
python3 -c 'import numpy, triton' 2> /dev/null || { echo "skipped: Triton or NumPy is not installed"; exit 77; }
rm -rf "$out"
mkdir -p "$out"
export TRITON_CACHE_DIR=$out/cache TRITON_PTXAS_PATH=$here/../../../softgpu/ptxas SOFTGPU_ARCH=80
python3 -B "$here/triton_kernels.py" "$out"
"$program" "$out"/*.ptx
python3 -B "$here/triton_step.py"
