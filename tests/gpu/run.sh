#!/usr/bin/env bash
# run.sh OUTDIR [--only STEP,STEP...] [--quick] [--limit SECONDS] [--total SECONDS] [--build-limit SECONDS] [--models MODEL,...] [--host SIZE] [--no-build]
# [--software | --cpu]: all that has to be shown on a GPU.
#
#   facts          what the driver does where documents are silent, beside what the software device does (facts.c), and which kernels of a
#                  PyTorch step ebb sees nothing of
#   conformance    the conformance suite against NVIDIA's driver
#   kernels        the trainer's kernels beside a reference on the host
#   costs          what the hardware charges for the calls that ebb is built on (bench/gpu_costs.c), and defaults that follow
#   differential   programs, also those that try to break it, and ebb-train under libebb: equal bits, never above the budget, overhead
#   pytorch        unmodified PyTorch models under ebb run beside PyTorch's own means (--models gpt2,llama,hf-gpt2,hf-llama)
#   throughput     ebb-train beside PyTorch, its kernels beside their bounds
#   sanitizer      compute-sanitizer on kernels and on the trainer, by itself and driven
#
# --quick       fewer budgets and steps: a few minutes for everything
# --limit       seconds for each step (540; for facts 360, for pytorch 1200 for each model, 540 with --quick); what a step has shown by then is kept
# --total       seconds for all of them together, what is built apart
# --build-limit seconds for the build (1800)
# --host        pinned host memory that ebb may take, as 48GiB (half of the machine's: too little where a virtual machine's memory grows
#               as it is used)
# --software    on the software device, what makes sense there, tiny: a test of these scripts
# --cpu         the step pytorch, tiny, on PyTorch for the CPU: a test of that script
#
# Each step writes OUTDIR/results.json and OUTDIR/summary.md anew while it goes, keeping there what steps of earlier calls have
# shown: of the step pytorch each model that was run at the same commit on the same device, of another step that is run again its
# earlier entry, under "earlier". Whatever ends the call leaves what there was. A step that fails stops no other, nor does a build or
# a library that is missing: what was made of these sources is run, nothing older. Exit code 0 only if the build and all that were asked for have passed; 2 for bad
# arguments.
#
# Builds in BUILD_FOLDER (build-gpu) for the GPU that is there; CUDA_HOME is the toolkit (/usr/local/cuda). PYTHON is the Python
# that has PyTorch (python3). Without a compiler or libraries there: kit.sh packs what
# another machine has built.
# Of several GPUs the first is used, by number or name that of CUDA_VISIBLE_DEVICES.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/gpu
# shellcheck source=tests/gpu/build.sh
source "$here/build.sh"
python=${PYTHON:-python3}
build=${BUILD_FOLDER:-$root/build-gpu}
[[ $build == /* ]] || build=$PWD/$build
out='' device=cuda no_build='' steps=$every_step build_limit=1800
words=("$@")
rest=()
while (($#)); do
    case $1 in
    --only | --limit | --total | --models | --host)
        (($# > 1)) || { echo "run.sh: $1 needs a value" >&2; exit 2; }
        [[ $1 != --only ]] || steps=$2
        rest+=("$1" "$2")
        shift
        ;;
    --build-limit)
        [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { echo 'run.sh: --build-limit is seconds' >&2; exit 2; }
        build_limit=$2
        shift
        ;;
    --software) device=software rest+=("$1") ;;
    --cpu) device=cpu rest+=("$1") ;;
    --quick) rest+=("$1") ;;
    --no-build) no_build=yes ;;
    -h | --help)
        sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) echo "run.sh: unknown option $1; --help lists them" >&2; exit 2 ;;
    *)
        [[ -z $out ]] || { echo "run.sh: one OUTDIR" >&2; exit 2; }
        out=$1
        ;;
    esac
    shift
done
[[ -n $out ]] || { echo 'run.sh: where to? --help tells more' >&2; exit 2; }
[[ $device != cpu || $steps != *,* ]] || { steps=pytorch rest+=(--only pytorch); }
rest=(--out "$out" --build "$build" --command "bash tests/gpu/run.sh ${words[*]}" "${rest[@]}")
"$python" "$here/steps.py" --check "${rest[@]}" || exit 2
[[ ! -e $build/commit ]] || no_build=yes # a kit

if [[ $device == cuda ]]; then
    # CUDA's numbers are NVML's, and one device is all that the programs see.
    export CUDA_DEVICE_ORDER=PCI_BUS_ID GPU_VISIBLE=${CUDA_VISIBLE_DEVICES:-0,1,2,3,4,5,6,7}
    export CUDA_VISIBLE_DEVICES=${GPU_VISIBLE%%,*}
    capability=$("$python" "$here/device.py") || {
        echo "run.sh: $capability" >&2
        echo 'run.sh: without a GPU, --software tries these scripts on the software device' >&2
        exit 1
    }
    mkdir -p "$out" || exit 2
    if [[ -z $no_build ]]; then
        began=$SECONDS
        gpu_build "$build" "$capability" "$steps" "$build_limit"
        status=$?
        ((status == 0)) || { gpu_build_failed "$build" && cp "$build.log" "$out/build.log"; } >&2
        echo "built in $((SECONDS - began)) s, exit code $status"
        rest+=(--built "$status" $((SECONDS - began)) "$build.log")
    fi
    find_libraries "$build" "$python" >&2 # what lacks one fails by itself
    [[ ! -d $build/found ]] || export LD_LIBRARY_PATH=$build/found:$build/found/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
mkdir -p "$out" || exit 2
exec "$python" "$here/steps.py" "${rest[@]}"
