#!/usr/bin/env bash
# try_build.sh FOLDER: what run.sh and kit.sh build on a machine with a GPU is there to be built: configured as they do it, with every
# target that the steps need. Nothing is compiled.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
# shellcheck source=tests/gpu/build.sh
source "$here/build.sh"
command -v ninja >/dev/null || { echo 'skipped: no ninja'; exit 77; }
rm -rf "$1"
mkdir -p "$1"
read -ra flags < <(gpu_flags 90)
# shellcheck disable=SC2154 # build.sh has it
read -ra targets < <(gpu_targets "$every_step")
cmake -S "$root" -B "$1" -G Ninja "${flags[@]}" >"$1/log" || { tail "$1/log"; exit 1; }
ninja -C "$1" -t commands "${targets[@]}" >"$1/log" || { tail "$1/log"; exit 1; }
echo "${#targets[@]} targets, $(wc -l <"$1/log") commands"
! grep -q -- "softgpu-kernels\|kernels.cpp.o" "$1/log" || { echo "kernel libraries of the software device are among them"; exit 1; }
