#!/usr/bin/env bash
# run.sh OUT [--torch FOLDER | --python PYTHON] [options] [-- OPTIONS]: PyTorch as it is, for CUDA 13, on the software device under ebb, with
# kernels that do nothing (README.md): a training script of tests/gpu by itself, then within each budget. Tells of each whether ebb has found
# the step, learned and driven it, and what its log says; 1 if PyTorch fails, the budget is exceeded, or there is less than expected;
# 77, and what is missing, where it cannot be tried.
#
#   --torch FOLDER    where the wheel is unzipped or installed (pip install --target): it has a folder torch
#   --python PYTHON   the Python that runs it (python3); without --torch the one whose torch it is
#   --budgets LIST    bytes (210MiB) or shares of what PyTorch holds by itself at its peak (100%,70%); 80%-recompute: nothing is copied
#   --compute         kernels that compute instead (compute/), for each model of `models` below: the losses beside PyTorch's on the CPU, the
#                     bits within 80, 60 and 45% beside those without ebb, and which launches are proven (compute/report.py). At 80% once more
#                     without copies: kernels take so long here that all copies are hidden, and no plan that may copy recomputes anything
#   --notebook FILE   instead of all that: runs the cells of a notebook (docs/pytorch.ipynb), and prints what they print; 1 if one fails
#   --expect WHAT     found (default), learned or driven: at least that, within every budget
#   -- OPTIONS        of tests/gpu/pytorch_models.py, of stock.py (--model trainer-...), or of patterns.py (--model pattern-...); by default a small GPT-2. With --compute: of one model,
#                     behind those of `small`; operators are not tried then. With --parallel two ranks are started, by torchrun, a GPU each; the budget is each one's
#
# OUT has links to the wheel, its kernels' library (made once, half a minute), and of each budget log, statistics and output. BUILD_FOLDER: build.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD_FOLDER:-$root/build}
out='' folder='' python=python3 budgets='' expect=found compute='' notebook=''
# Of --compute, behind `small`: 30 steps of a model most of whose memory are activations of more than 1 MiB each, because ebb does not evict smaller
# buffers; with a short context, because attention takes most time here. With dropout there are no losses to compare: the CPU has other masks.
# With fp16 the scale of gradients begins high and grows after three steps: every fourth step has infinite ones, and is skipped.
models=(
    '--model gpt2 --precision fp32 --dropout 0'
    '--model gpt2 --precision bf16 --dropout 0 --accumulate 2'
    '--model gpt2 --precision bf16 --dropout 0.1 --context 128 --batch 24'
    '--model gpt2 --precision fp16 --dropout 0 --batch 100 --optimizer foreach --scale 22 --growth 3'
    '--model llama --precision fp32 --dropout 0 --optimizer foreach'
    '--model llama --precision bf16 --dropout 0'
    '--model hf-gpt2 --precision fp32 --dropout 0'
    '--model hf-llama --precision bf16 --dropout 0'
    '--model trainer-gpt2 --precision fp32 --evaluate 10'
    '--model trainer-llama --precision bf16 --evaluate 10 --accumulate 2'
    '--model pattern-accumulate+zeros+evaluate+log'
    '--model pattern-begin+accumulate+losses+evaluate+clip'
    '--model pattern-gan+evaluate+ema+metric'
    '--model gpt2 --precision bf16 --dropout 0 --mode compile --context 128 --batch 24'
    '--model llama --precision fp32 --dropout 0 --mode compile'
    '--model gpt2 --precision fp32 --dropout 0 --parallel ddp --accumulate 2'
    '--model llama --precision bf16 --dropout 0 --parallel ddp --batch 192'
    '--model gpt2 --precision fp32 --dropout 0 --parallel fsdp'
)
small='--layers 2 --width 192 --heads 3 --context 32 --batch 96 --vocab 512 --steps 30 --warmup 16'
options=(--model gpt2 --layers 4 --width 256 --heads 4 --context 256 --batch 8 --vocab 4096 --steps 24 --warmup 16)

skip() {
    echo "skipped: $*"
    exit 77
}

refuse() {
    echo "run.sh: $*; --help tells more" >&2
    exit 2
}

while (($#)); do
    case $1 in
    --torch | --python | --budgets | --expect | --notebook)
        (($# > 1)) || refuse "$1 needs a value"
        case $1 in
        --torch) folder=$2 ;;
        --python) python=$2 ;;
        --budgets) budgets=$2 ;;
        --expect) expect=$2 ;;
        --notebook) notebook=$2 ;;
        esac
        shift
        ;;
    --compute) compute=1 ;;
    --)
        shift
        options=("$@")
        models=("$*")
        break
        ;;
    -h | --help)
        sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) refuse "unknown option $1" ;;
    *) out=$1 ;;
    esac
    shift
done
[[ -n $out ]] || refuse 'where to?'
budgets=${budgets:-$([[ $compute ]] && echo 80%,60%,45%,80%-recompute || echo 100%,70%,50%)}
[[ $compute || " ${options[*]} " != *' --parallel '* ]] || refuse '--parallel needs --compute: ranks compare what they have computed'
[[ $expect =~ ^(found|learned|driven)$ ]] || refuse "--expect $expect"

# ---- what it takes ----

[[ -x $build/bin/ebb && -e $build/lib/libebb.so && -e $build/softgpu/lib/libcuda.so.1 && -x $build/bin/pytorch_kernels ]] ||
    skip "$build has not ebb, libebb.so, the software device and pytorch_kernels (BUILD_FOLDER; bash tests/run.sh builds them)"
build=$(cd "$build" && pwd)
command -v "$python" >/dev/null || skip "no $python"
if [[ -n $folder ]]; then
    [[ -d $folder/torch ]] || skip "no torch in $folder (pip download --no-deps torch, and unzip it there)"
    export PYTHONPATH
    PYTHONPATH=$(cd "$folder" && pwd)
fi
# Of the Python found without importing it, which needs the libraries.
torch=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) ||
    skip "no PyTorch in $python; --torch or --python names another"
readelf -d "$torch/lib/libtorch_cuda.so" 2>/dev/null | grep -q 'libcudart\.so\.13' || skip "$torch is not PyTorch for CUDA 13"
tag=$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
compgen -G "$torch/_C.$tag-*.so" >/dev/null || skip "$torch is for another Python than $python ($tag)"
lacking=$("$python" -c 'import importlib.util as u
print(*(m for m in "typing_extensions sympy networkx jinja2 fsspec filelock numpy".split() if not u.find_spec(m)))')
[[ -z $lacking ]] || skip "PyTorch needs these of Python: $lacking"
[[ -z $notebook ]] || "$python" -c 'import nbclient, ipykernel' 2>/dev/null || skip "$python has not nbclient and ipykernel"

# ---- the wheel as the loader is to see it ----

# Its libraries look for CUDA's beside themselves first (RPATH), where a complete installation has NVIDIA's: so they are reached by links in a folder
# that has none of these, and the rest of NVIDIA's by links in another, from beside PyTorch or from the toolkit.
make_view() {
    local place name
    rm -rf "$out/site" "$out/libraries" "$out/kernels"
    mkdir -p "$out/site" "$out/libraries" "$out/kernels"
    cp -rs "$torch" "$out/site/torch"
    for place in "$torch"/../nvidia/*/lib "${CUDA_HOME:-/usr/local/cuda}/lib64"; do
        for name in "$place"/*.so.*; do
            [[ ! -e $name || -e $build/softgpu/lib/${name##*/} || -e $out/libraries/${name##*/} ]] ||
                ln -s "$(realpath "$name")" "$out/libraries/${name##*/}"
        done
    done
}

# make_kernels <library>: its kernel library, for SOFTGPU_KERNEL_PATH.
make_kernels() {
    local name=${1##*/}
    "$build/bin/pytorch_kernels" "$1" >"$out/$name.c" || {
        echo "not all kernels of $name can be read (are libzstd.so.1 and liblz4.so.1 there?)"
        exit 1
    }
    cc -shared -fPIC -I "$root/softgpu/include" -o "$out/kernels/$name.softgpu.so" "$out/$name.c"
    rm "$out/$name.c"
}

mkdir -p "$out"
out=$(cd "$out" && pwd)
of="$torch $(stat -c %Y "$torch/lib/libtorch_cuda.so")"
if [[ $(cat "$out/of" 2>/dev/null) != "$of" ]]; then
    rm -f "$out/of"
    make_view
    for library in "$out"/site/torch/lib/*.so; do
        ! readelf -SW "$library" | grep -q ' \.nv_fatbin ' || make_kernels "$library"
    done
    echo "$of" >"$out/of"
fi
export PYTHONPATH=$out/site${PYTHONPATH:+:$PYTHONPATH} LD_LIBRARY_PATH=$build/softgpu/lib:$out/libraries
missing=$(ldd "$out/site/torch/lib/libtorch_cuda.so" | awk '/=> not found/ { print $1 }' | sort -u | xargs)
[[ -z $missing ]] || skip "no $missing beside PyTorch, nor in the toolkit (pip download --no-deps has each as a wheel of NVIDIA's)"

if [[ $compute ]]; then
    why=$("$root/softgpu/softgpu-clang++" --version 2>&1) || skip "$why"
    for library in "$out"/kernels/*.softgpu.so; do
        "$python" -B "$here/compute/make.py" "$library" "$torch" "$build" "$out/compute"
    done
fi

# ---- runs ----

export SOFTGPU_MEMORY=${SOFTGPU_MEMORY:-6G} SOFTGPU_DEVICES=2 SOFTGPU_KERNEL_PATH=$out/kernels SOFTGPU_DRY=1 CUBLAS_WORKSPACE_CONFIG=:4096:8 XDG_CACHE_HOME=$out/cache
# PyTorch's modules are compiled once: that is half a minute of each run otherwise.
export PYTHONPYCACHEPREFIX=$out/bytecode
# is_parallel: two ranks, each with a GPU.
is_parallel() {
    [[ " ${options[*]} " == *' --parallel '* ]]
}

# PyTorch's graphs have memory that outlives their launches, by cudaMallocAsync too; so ebb launches them node by node only with PyTorch's own allocator.
allocator() {
    [[ " ${options[*]} " == *' --mode graph '* ]] && echo native || echo cudaMallocAsync
}

# trains <name> <command>...: its output in OUT/<name>.json, its log in OUT/<name>.log.
trains() {
    local name=$1 launcher=() script=$root/tests/gpu/pytorch_models.py
    shift
    [[ " ${options[*]} " != *' --model trainer-'* ]] || script=$here/stock.py
    [[ " ${options[*]} " != *' --model pattern-'* ]] || script=$here/patterns.py
    ! is_parallel || launcher=(-m torch.distributed.run --standalone --nproc-per-node 2)
    timeout 1800 "$@" "$python" "${launcher[@]}" "$script" "${options[@]}" >"$out/$name.json" 2>"$out/$name.log" || {
        echo "PyTorch failed ($name); $out/$name.log ends so:"
        tail -n 15 "$out/$name.log"
        return 1
    }
}

# peak_of <name>: bytes.
peak_of() {
    "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["torch_peak_bytes"])' "$out/$1.json"
}

# within <folder/ or nothing> <budget> <peak>: a run of that, with its statistics. A plan is waited for: else how many steps it is driven in depends on
# what else the machine does.
within() {
    local name=$1$2 bytes=${2%-recompute} offload=1 of_rank='' keep=()
    [[ $2 == "$bytes" ]] || offload=0
    [[ $bytes != *% ]] || bytes=$(($3 * ${bytes%\%} / 100))
    ! is_parallel || of_rank=.%r
    rm -f "$out/$name.stats"*
    [[ ! $compute ]] || local -x EBB_TRACE=$out/$name.trace$of_rank
    [[ $(allocator) != native ]] || keep=(--keep-allocator)
    EBB_OFFLOAD=$offload EBB_PLAN_WAIT=600000 trains "$name" "$build/bin/ebb" run "${keep[@]}" --budget "$bytes" --log info --stats "$out/$name.stats$of_rank" --
}

failed=0
if [[ $compute ]]; then
    export SOFTGPU_KERNEL_PATH=$out/compute SOFTGPU_DRY=0 CUBLAS_WORKSPACE_CONFIG=:16:8 SOFTGPU_ARCH=80 TRITON_PTXAS_PATH=$root/softgpu/ptxas TRITON_CACHE_DIR=$out/cache/triton \
        TRITON_LIBCUDA_PATH=$build/softgpu/lib TORCHINDUCTOR_CACHE_DIR=$out/cache/inductor CPATH=${CUDA_HOME:-/usr/local/cuda}/include
    if ((${#models[@]} > 1)); then
        "$python" -B "$here/compute/test_kernels_of_torch.py" >"$out/compute/test.log" 2>&1 || failed=1
        echo "operators against PyTorch's CPU backend: $(tail -n 1 "$out/compute/test.log") ($out/compute/test.log)"
    fi
    for model in "${models[@]}"; do
        name=$(tr -s ' -' '-' <<<"${model#--model }")
        read -r -a options <<<"$small $model"
        rm -rf "${out:?}/$name" && mkdir -p "$out/$name"
        trains "$name/alone" env PYTORCH_ALLOC_CONF="backend:$(allocator)" || {
            failed=1
            continue
        }
        [[ $model == *'--dropout 0.'* || $model == *'--model pattern-'* ]] || {
            options+=(--device cpu --mode eager)
            trains "$name/cpu" || failed=1
            read -r -a options <<<"$small $model"
        }
        peak=$(peak_of "$name/alone")
        for budget in ${budgets//,/ }; do
            within "$name/" "$budget" "$peak" || failed=1
        done
        read -r -a list <<<"${budgets//,/ }"
        "$python" -B "$here/compute/report.py" "$out/$name" "${list[@]}" || failed=1
    done
    exit $failed
fi

if [[ $notebook ]]; then
    rm -rf "$out/notebook" && mkdir "$out/notebook"
    SOFTGPU_ARCH=80 PATH=$build/bin:$PATH PYTHONPATH=$PYTHONPATH:$root/packaging/python "$python" -B "$here/notebook.py" "$notebook" "$out/notebook"
    exit
fi

trains alone env PYTORCH_ALLOC_CONF="backend:$(allocator)"
peak=$(peak_of alone)
echo "PyTorch $(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$torch/version.py") by itself: $((peak >> 20)) MiB at its peak"
for budget in ${budgets//,/ }; do
    if within '' "$budget" "$peak"; then
        "$python" -B "$here/report.py" "$out/$budget" "$expect" || failed=1
    else
        failed=1
    fi
done
exit $failed
