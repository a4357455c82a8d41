# shellcheck shell=bash disable=SC2034
# setup.sh: what model/quickstart.sh and tests/run.sh share: finds or installs what the build needs, and builds.
#
# Sourced, under `set -euo pipefail`. The callers use, in this order,
#   setup_packages [row...]    distribution packages: installs what is missing, or says how
#   offer_packages row...      the same for packages that can be done without
#   setup_device               decides between GPU and software device: $device, $device_why
#   setup_toolkit              finds the CUDA Toolkit, or installs its compiler into the build folder: $cuda
#   setup_build [option...]    configures where necessary, and builds
# One line if there is nothing to do. What is long goes to a log in $build/logs, whose end is shown if it fails.
#
# Variables that are read: CUDA_HOME, BUILD_FOLDER (the build folder), TRAIN_DEVICE (auto, gpu or soft).

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_FOLDER:-$root/build}
[[ $build == /* ]] || build=$PWD/$build
logs=$build/logs
cuda=''       # the toolkit's folder
device=''     # gpu or soft
device_why='' # in words
capability='' # the GPU's compute capability, as in sm_80: 80
targets=(all) # what to build

# NVIDIA's wheels, of one CUDA release: compiler and headers. The C++ libraries are not needed, and cuBLAS, half a
# gigabyte, only by a GPU: for the software device, programs are built against softgpu's own (softgpu/README.md).
cuda_wheels=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-profiler-api==13.0.85 nvidia-nvtx==13.0.85)
cublas_wheels=(nvidia-cublas==13.1.0.3 nvidia-cuda-cccl==13.0.85) # its header needs <nv/target>

say() {
    printf 'ebb: %s\n' "$*"
}

# fail <what went wrong> [<what to do>...]: one line each, on stderr.
fail() {
    printf 'ebb: %s\n' "$1" >&2
    shift
    (($# == 0)) || printf '     %s\n' "$@" >&2
    exit 1
}

# refuse <what was wrong with the arguments or variables>: one line on stderr, exit code 2.
refuse() {
    printf 'ebb: %s\n' "$1" >&2
    exit 2
}

# logged <name> <command...>: runs the command with its output in $logs/<name>.log; shows the end of that if it fails.
logged() {
    local log=$logs/$1.log
    shift
    if ! "$@" >"$log" 2>&1 </dev/null; then
        printf 'ebb: this failed: %s\n     the end of %s:\n\n' "$*" "$log" >&2
        tail -n 25 "$log" >&2
        printf '\n' >&2
        return 1
    fi
}

# ---- distribution packages ----

# A row: how to see that it is there, and the Debian package that brings it.
requirements=(
    'command cmake|cmake'
    'command gcc|gcc'
    'command g++|g++'
    'command c++filt|binutils'
    'builder|ninja-build'
    'command pkg-config|pkg-config'
    'module jemalloc|libjemalloc-dev'
    'module hwloc|libhwloc-dev'
    'module libcjson|libcjson-dev'
    'module cmocka|libcmocka-dev'
    'module openblas|libopenblas-serial-dev'
)

is_there() {
    case $1 in
    command) command -v "$2" >/dev/null ;;
    builder) command -v ninja >/dev/null || command -v make >/dev/null ;;
    module) pkg-config --exists "$2" 2>/dev/null ;;
    clang) "$root/softgpu/softgpu-clang++" --version >/dev/null 2>&1 ;;
    library) [[ $(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null) == *[[:space:]]"$2 "* ]] ;; # at run time only
    pip) python3 -m pip --version >/dev/null 2>&1 ;;
    *) fail "unknown requirement: $*" "this is a mistake in model/setup.sh" ;;
    esac
}

missing_packages() {
    local row
    for row in "$@"; do
        # shellcheck disable=SC2086 # the probe is words
        is_there ${row%|*} || printf '%s\n' "${row#*|}"
    done
}

# How this user may install packages: nothing for root, a command prefix, or failure.
become_root() {
    if ((EUID == 0)); then
        return 0
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        printf 'sudo -n'
    else
        return 1
    fi
}

apt_install() {
    local -a apt
    # shellcheck disable=SC2206 # the prefix is words
    apt=($1 env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
    shift
    # A broken third-party source fails the update, not what comes from the others.
    "${apt[@]}" update || echo 'apt-get update failed; going on with the lists that are here'
    "${apt[@]}" install -y --no-install-recommends "$@"
}

# install_packages <package...>
install_packages() {
    local prefix by_hand="sudo apt-get install --no-install-recommends $*"
    if ! command -v apt-get >/dev/null; then
        fail "missing here: $*" \
            'these are the names of Debian packages, and this is neither Debian nor Ubuntu: install what corresponds' \
            'to them with the package manager of this system, then run the same command again'
    fi
    if ! prefix=$(become_root); then
        fail "missing packages, and installing them needs root: $*" \
            "get them by:  $by_hand" \
            'then run the same command again'
    fi
    say "installing $*"
    if ! logged apt apt_install "$prefix" "$@"; then
        if grep -qE 'Unable to locate package|has no installation candidate' "$logs/apt.log"; then
            fail 'a package is not in the lists of apt' \
                'on Ubuntu, enable the component "universe" (sudo add-apt-repository universe); elsewhere, check' \
                "the network and /etc/apt; then: sudo apt-get update && $by_hand"
        fi
        fail 'the packages could not be installed' "see above; by hand it is:  sudo apt-get update && $by_hand"
    fi
}

# setup_packages [<row>...]: the requirements of the build and those given.
setup_packages() {
    local -a rows=("${requirements[@]}" "$@") missing
    if ! mkdir -p "$logs" 2>/dev/null || [[ ! -w $build || ! -w $logs ]]; then
        fail "cannot write to $build" 'it may belong to another user; choose another build folder: BUILD_FOLDER=FOLDER'
    fi
    find_toolkit || rows+=('pip|python3-pip') # all at once: whoever has to ask for packages asks only once
    mapfile -t missing < <(missing_packages "${rows[@]}")
    if ((${#missing[@]} > 0)); then
        install_packages "${missing[@]}"
        mapfile -t missing < <(missing_packages "${rows[@]}")
        ((${#missing[@]} == 0)) || fail "still not usable after their installation: ${missing[*]}" \
            'look for other versions of these programs that come first on PATH or PKG_CONFIG_PATH'
    fi
    local version
    version=$(cmake --version | sed -n '1s/[^0-9]*//p')
    at_least "$version" 3.22 || fail "CMake $version is too old: 3.22 is needed" \
        'install a newer one ("pip install cmake" has it) and put it first on PATH'
}

# offer_packages <row>...: installs what is missing of what can be done without.
offer_packages() {
    local -a missing
    local prefix
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]} > 0)) || return 0
    say "installing ${missing[*]}"
    if ! command -v apt-get >/dev/null || ! prefix=$(become_root) ||
        ! apt_install "$prefix" "${missing[@]}" >"$logs/apt-optional.log" 2>&1 </dev/null; then
        say "going on without ${missing[*]}: what needs it is skipped"
    fi
}

# at_least <version> <version>
at_least() {
    [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]
}

# ---- GPU or software device ----

# Asks the driver as a CUDA program would. Prints "<driver's CUDA version> <capability> <name>", or the reason why not.
probe_gpu() {
    local probe=$build/probe-gpu
    if [[ ! -x $probe || ${BASH_SOURCE[0]} -nt $probe ]]; then
        gcc -x c -std=gnu11 -O1 -o "$probe" - -ldl <<'PROBE' || fail 'gcc cannot build a small program' 'see above; is libc6-dev there?'
#include <dlfcn.h>
#include <stdio.h>

static void *cuda;
#define CALL(name, ...) ((int (*)())dlsym(cuda, name))(__VA_ARGS__)

static int no(const char *reason, int error)
{
    printf(error ? "%s (error %d)\n" : "%s\n", reason, error);
    return 1;
}

int main(void)
{
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda == NULL)
        return no("no NVIDIA driver is installed (libcuda.so.1 cannot be loaded)", 0);
    int version = 0, count = 0, device = 0, major = 0, minor = 0;
    char name[256] = "";
    int error = CALL("cuInit", 0);
    if (error)
        return no("the NVIDIA driver is installed but does not start", error);
    if (CALL("cuDeviceGetCount", &count) || count == 0 || CALL("cuDeviceGet", &device, 0))
        return no("the NVIDIA driver lists no device", 0);
    CALL("cuDriverGetVersion", &version);
    CALL("cuDeviceGetName", name, (int)sizeof name, device);
    CALL("cuDeviceGetAttribute", &major, 75, device);
    CALL("cuDeviceGetAttribute", &minor, 76, device);
    printf("%d.%d %d%d %s\n", version / 1000, version % 1000 / 10, major, minor, name);
    return 0;
}
PROBE
    fi
    # Without softgpu's own libcuda, should it be on the loader's path.
    LD_LIBRARY_PATH=$(without_softgpu "${LD_LIBRARY_PATH:-}") "$probe"
}

# without_softgpu <a:b:c>: the same path without folders that hold softgpu's libraries.
without_softgpu() {
    local folder rest=''
    local -a folders
    IFS=: read -r -a folders <<<"$1"
    for folder in "${folders[@]}"; do
        [[ -z $folder || $folder == */softgpu/lib ]] || rest+=${rest:+:}$folder
    done
    printf '%s' "$rest"
}

setup_device() {
    local wanted=${TRAIN_DEVICE:-auto} found version name
    case $wanted in
    auto | gpu) ;;
    soft)
        device=soft device_why='TRAIN_DEVICE=soft'
        return
        ;;
    *) refuse "TRAIN_DEVICE=$wanted: there are auto, gpu and soft" ;;
    esac
    if found=$(probe_gpu); then
        read -r version capability name <<<"$found"
        if ! at_least "$version" 13.0; then
            found="$name has a driver for CUDA $version; CUDA 13 needs NVIDIA's driver 580 or newer"
        elif ((capability < 75)); then
            found="$name has compute capability ${capability%?}.${capability: -1}; CUDA 13 needs 7.5"
        else
            device=gpu device_why=$name
            return
        fi
    fi
    [[ $wanted == auto ]] || fail "TRAIN_DEVICE=gpu, but $found" 'the software device runs everywhere: TRAIN_DEVICE=soft'
    device=soft device_why=$found capability=''
}

# ---- the CUDA Toolkit ----

# The version of the toolkit in a folder ("13.0"), or failure.
toolkit_version() {
    local text
    text=$("$1/bin/nvcc" --version 2>/dev/null) || return 1
    [[ $text =~ release\ ([0-9]+\.[0-9]+) ]] && printf '%s' "${BASH_REMATCH[1]}"
}

# toolkit_library <folder> <library>: prints the path of lib<library>.so.
toolkit_library() {
    local folder
    for folder in lib64 lib targets/x86_64-linux/lib; do
        if [[ -e $1/$folder/lib$2.so ]]; then
            printf '%s' "$1/$folder/lib$2.so"
            return 0
        fi
    done
    return 1
}

# Prints why the toolkit in a folder cannot be used; nothing, if it can.
toolkit_fault() {
    local version
    if ! version=$(toolkit_version "$1"); then
        echo "$1 holds no nvcc that works"
    elif [[ $version != 13.* ]]; then
        echo "the CUDA Toolkit in $1 is version $version, ebb needs 13"
    elif [[ ! -e $1/include/cuda_runtime.h ]] || ! toolkit_library "$1" cudart >/dev/null; then
        echo "the CUDA Toolkit in $1 is incomplete (cuda_runtime.h or libcudart.so)"
    fi
}

# The toolkit of the nvcc on PATH: where it says (it may be a script), else where its file is (a bare link cannot say).
toolkit_on_path() {
    local nvcc text
    nvcc=$(command -v nvcc) || return 1
    text=$("$nvcc" -v __no_such_file__ 2>&1 || true)
    if [[ $text =~ \#\$\ TOP=([^$'\n']*) ]]; then
        (cd "${BASH_REMATCH[1]}" 2>/dev/null && pwd)
    else
        dirname "$(dirname "$(readlink -f "$nvcc")")"
    fi
}

# install_wheels <wheel...>: those that are not in $build/cuda yet, in the layout of an installed toolkit.
install_wheels() {
    local into=$build/cuda new=$build/cuda.new wheel library
    local -a wanted=()
    for wheel in "$@"; do
        grep -qx "$wheel" "$into/wheels" 2>/dev/null || wanted+=("$wheel")
    done
    ((${#wanted[@]} > 0)) || return 0
    say "getting NVIDIA's Python wheels into $into: ${wanted[*]}"
    is_there pip || install_packages python3-pip
    rm -rf "$new"
    logged pip python3 -m pip install --disable-pip-version-check --no-input --no-deps --no-compile \
        --only-binary :all: --target "$new" "${wanted[@]}" ||
        fail "NVIDIA's Python wheels could not be installed" \
            'see above; pip needs to reach the Python package index or a mirror of it (pip config list shows which);' \
            'or install the CUDA Toolkit 13 and set CUDA_HOME to its folder'
    mkdir -p "$into/dist-info" # with NVIDIA's licences
    cp -a "$new"/nvidia/cu13/. "$into"/
    cp -a "$new"/*.dist-info "$into/dist-info"/
    rm -rf "$new"
    # What a wheel cannot hold, links and modes, as linkers and CMake look for them.
    chmod +x "$into"/bin/* "$into"/nvvm/bin/*
    ln -sfn lib "$into/lib64"
    for library in cudart cublas cublasLt; do
        if [[ -e $into/lib/lib$library.so.13 ]]; then
            ln -sf "lib$library.so.13" "$into/lib/lib$library.so"
        fi
    done
    printf '%s\n' "${wanted[@]}" >>"$into/wheels"
    rm -f "$build/configured" # CMake has to look again
}

# Sets $cuda to the first toolkit that can be used, or fails with $toolkit_faults telling about those that cannot.
find_toolkit() {
    local candidate fault
    toolkit_faults=()
    for candidate in "${CUDA_HOME:-}" /usr/local/cuda "$(toolkit_on_path || true)" "$build/cuda" "$root/build/cuda"; do
        [[ -n $candidate && -e $candidate ]] || continue
        fault=$(toolkit_fault "$candidate")
        if [[ -z $fault ]]; then
            cuda=$candidate
            return 0
        fi
        toolkit_faults+=("$fault")
    done
    return 1
}

setup_toolkit() {
    local fault
    if ! find_toolkit; then
        [[ $(uname -m) == x86_64 ]] || fail "no CUDA Toolkit 13 was found, and ebb fetches it for x86-64 only" \
            'install it and set CUDA_HOME to its folder'
        for fault in "${toolkit_faults[@]}"; do
            say "$fault: passed over"
        done
        say 'there is no CUDA Toolkit 13 here: only its compiler is needed, about 100 MB'
        install_wheels "${cuda_wheels[@]}"
        find_toolkit || fail "${toolkit_faults[-1]}" "remove $build/cuda and run the same command again"
    fi
    if [[ $cuda == "$build/cuda" ]]; then
        install_wheels "${cuda_wheels[@]}"
        [[ $device != gpu ]] || install_wheels "${cublas_wheels[@]}"
    elif [[ $device == gpu ]] && ! toolkit_library "$cuda" cublas >/dev/null; then
        fail "the CUDA Toolkit in $cuda has no cuBLAS, which the GPU needs" \
            'install it there, or use the software device: TRAIN_DEVICE=soft'
    fi
}

# ---- building ----

# cached <name>: a variable of CMake's cache.
cached() {
    sed -n "s|^$1:[A-Z]*=||p" "$build/CMakeCache.txt"
}

# setup_build [<cmake option>...]
setup_build() {
    local -a configure=(cmake -S "$root" -B "$build" -DCUDAToolkit_ROOT="$cuda" "$@")
    local begin=$SECONDS was
    if [[ -n $capability ]] && "$cuda/bin/nvcc" --list-gpu-arch | grep -qx "compute_$capability"; then
        configure+=(-DEBB_CUDA_ARCHITECTURES="$capability")
    fi
    # A cache for another toolkit, or from a copied folder, would be believed by CMake.
    if [[ -e $build/CMakeCache.txt ]]; then
        was=$(cached CMAKE_HOME_DIRECTORY)
        if [[ $was != "$root" || $(cached CUDAToolkit_ROOT) != "$cuda" ]]; then
            rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
        fi
    fi
    # The options of the last time: the same ones need no configuring, CMake itself sees everything else.
    if [[ ! -e $build/CMakeCache.txt || $(cat "$build/configured" 2>/dev/null) != "${configure[*]}" ]]; then
        printf '%s\n' "${configure[*]}" >"$build/configured.new"
        if [[ ! -e $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then
            configure+=(-G Ninja)
        fi
        say "configuring in $build, CUDA Toolkit $(toolkit_version "$cuda") from $cuda"
        logged configure "${configure[@]}" ||
            fail 'CMake could not configure the build' "see above; after a change of compilers, remove $build first"
        mv "$build/configured.new" "$build/configured"
    fi
    if [[ ! -e $build/bin/ebb-train ]]; then
        say "building: about $([[ ${targets[*]} == all ]] && echo 'five minutes' || echo 'a minute') on two cores"
    elif [[ -t 1 ]]; then
        printf 'ebb: building\r'
    fi
    logged build cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" ||
        fail 'the build failed' "see above; $logs/build.log has all of it"
    if grep -qE 'Building|Linking|nvcc' "$logs/build.log"; then
        say "built in $((SECONDS - begin)) s"
    else
        say 'everything is installed and built'
    fi
}
