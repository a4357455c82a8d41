#!/usr/bin/env bash
# times.sh <softgpu-clang++> <folder>: what SOFTGPU_KERNEL_TIMES tells of a program whose kernel comes from PTX: its launches and blocks, the time
# that the processors took for it, and the bytes that its text declares. 77: there is no Clang that can do it.
set -euo pipefail

compiler=$1 program=$2/times
if ! why=$("$compiler" --version 2>&1); then
    printf '%s\n' "$why"
    exit 77
fi
mkdir -p "$2"
cat >"$program.cu" <<'END'
__global__ void add_up(int *at)
{
    for (int i = 0; i < 1000; i++)
        at[blockIdx.x * blockDim.x + threadIdx.x] += i;
}

int main()
{
    int *at, first;
    cudaMalloc(&at, 5 * 64 * sizeof *at);
    cudaMemset(at, 0, 5 * 64 * sizeof *at);
    for (int i = 0; i < 3; i++)
        add_up<<<5, 64>>>(at);
    return cudaMemcpy(&first, at, sizeof first, cudaMemcpyDeviceToHost) || first != 3 * 499500;
}
END
"$compiler" -O2 "$program.cu" -o "$program"
rm -f "$program.json"
SOFTGPU_KERNEL_TIMES=$program.json "$program"
cat "$program.json"
grep -qE '"kernel":"_Z6add_upPi","launches":3,"blocks":15,"processor_ns":[1-9][0-9]{3,},.*"bytes":[1-9][0-9]*,"declared":true' "$program.json"
grep -q '"kernel":"copy","launches":1,' "$program.json"
grep -q '"kernel":"memset","launches":1,.*"bytes":1280,' "$program.json"
