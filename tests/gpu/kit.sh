#!/usr/bin/env bash
# kit.sh FOLDER [--architectures LIST] [--no-build]: everything that run.sh needs on a machine with a GPU, built on one without, for where there is
# no compiler, no network, or no root to install libraries:
#
#   here     bash tests/gpu/kit.sh KIT          then take the folder KIT there (tens of MiB)
#   there    bash KIT/tests/gpu/run.sh OUT      it finds that everything is built
#
# --architectures   compute capabilities to compile for, as 80;90 (all; newer GPUs take the PTX of the last one)
#
# --no-build        pack what BUILD_FOLDER has
#
# The machine there needs glibc 2.34, bash, Python 3, the driver (580 or newer), cuBLAS 13 (the toolkit's, or as PyTorch brings it), and
# for the steps that want them PyTorch and compute-sanitizer. Builds in BUILD_FOLDER (build-kit).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/gpu/build.sh
source "$root/tests/gpu/build.sh"
build=${BUILD_FOLDER:-$root/build-kit}
[[ $build == /* ]] || build=$PWD/$build
kit='' architectures=all no_build=''
while (($#)); do
    case $1 in
    --architectures)
        architectures=${2:?--architectures needs a value}
        shift
        ;;
    --no-build) no_build=yes ;;
    -h | --help)
        sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) echo "kit.sh: unknown option $1; --help lists them" >&2; exit 2 ;;
    *) kit=$1 ;;
    esac
    shift
done
[[ -n $kit ]] || { echo 'kit.sh: where to? --help tells more' >&2; exit 2; }
[[ ! -e $kit || -e $kit/build-gpu/commit || -z $(ls -A "$kit") ]] || { echo "kit.sh: $kit is something else" >&2; exit 2; }

mkdir -p "$build"
[[ -n $no_build ]] || gpu_build "$build" "$architectures" "$every_step" || { gpu_build_failed "$build" >&2; exit 1; }

rm -rf "$kit"
mkdir -p "$kit/build-gpu/bin" "$kit/build-gpu/lib/more"
# Scripts, and the sources that the trainer reads as text (common.py) and defaults.py for defaults.
(cd "$root" && find docs tests/gpu tests/conformance/{run.sh,under_ebb.txt} \
    alloc ckpt offload/internal.h -type f ! -name '*.pyc' -print0 | tar --null -T - -c) | tar -x -C "$kit"
for program in ebb ebb-train facts gpu_costs bench_kernels loop arena lanes nasty fuzz "${kernel_tests[@]}"; do
    cp "$build/bin/$program" "$kit/build-gpu/bin/"
done
cp -r "$build/conformance" "$kit/build-gpu/"
cp "$build/tests/conformance/conformance_kernels.fatbin" "$kit/build-gpu/conformance/"
cp "$build/tests/gpu/facts_kernels.fatbin" "$build/bench/gpu_costs_kernels.fatbin" "$build/tests/fuzz/fuzz_kernels.fatbin" "$kit/build-gpu/bin/"
cp "$build/lib/libebb.so" "$kit/build-gpu/lib/"
# Libraries that are not everywhere; run.sh takes them only where the loader finds none.
for name in libcjson.so.1 libcmocka.so.0 libcudart.so.13; do
    found=$(ldd "$build/bin/ebb-train" "$build/bin/kernels_passes" | sed -n "s/.*$name => \(\/[^ ]*\).*/\1/p" | head -n 1)
    [[ -n $found ]] || { echo "kit.sh: no $name here" >&2; exit 1; }
    cp -L "$found" "$kit/build-gpu/lib/more/$name"
done
find "$kit/build-gpu" -type f -executable -exec strip --strip-debug {} + 2>/dev/null || true
git -C "$root" describe --always --dirty >"$kit/build-gpu/commit" 2>/dev/null || echo unknown >"$kit/build-gpu/commit"
sed -i "s/\$/, a kit built by $(gcc -dumpfullversion), nvcc $("${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" --version | sed -n 's/.*, V//p')/" \
    "$kit/build-gpu/commit"
echo "$kit: $(du -sm "$kit" | cut -f1) MiB, for $(sed -n 's/^EBB_CUDA_ARCHITECTURES:STRING=//p' "$build/CMakeCache.txt"); $(cat "$kit/build-gpu/commit")"
