# shellcheck shell=bash
# build.sh: what run.sh and kit.sh share: what the steps need, and where the libraries are that it needs. Sourced.

kernel_tests=(kernels_attention_tensor kernels_passes kernels_attention kernels_attention_next kernels_outliers) # common.py has them, too
every_step=facts,conformance,kernels,costs,differential,pytorch,throughput,sanitizer

# within <seconds> <command>...: ends it with all that it has started when its time is up (124) or when this shell is told to end.
within() {
    local status
    timeout --kill-after=10 "$@" &
    # shellcheck disable=SC2064 # this process
    trap "kill $!; exit 130" INT TERM
    wait $!
    status=$?
    trap - INT TERM
    return $status
}

# sources_now: a number that is another one when a source is.
sources_now() {
    # shellcheck disable=SC2154 # root is the caller's
    (cd "$root" 2>/dev/null && find CMakeLists.txt alloc bench ckpt cli model offload packaging softgpu tests -type f \( -name '*.c' -o -name '*.h' \
        -o -name '*.cu' -o -name '*.cuh' -o -name '*.map' -o -name '*.txt' -o -name '*.cmake' \) -printf '%p %s %T@\n' 2>/dev/null) | sort | cksum
}

# drop_older <build folder>: after a build that has failed, programs that an earlier one has made of other sources go: they would be run
# as if they were of these.
drop_older() {
    local folder=$1 now
    now=$(sources_now)
    if [[ $now != "$(cat "$folder/sources" 2>/dev/null)" ]]; then
        find "$folder/bin" "$folder/lib" "$folder/conformance" -maxdepth 1 -type f ! -newer "$folder/begun" -delete 2>/dev/null
    fi
    echo "$now" >"$folder/sources"
}

# gpu_targets <steps>: what has to be built for them.
gpu_targets() {
    local steps=$1
    local -a targets=(ebb ebb-cli ebb-train)
    [[ $steps != *facts* ]] || targets+=(facts)
    [[ $steps != *conformance* ]] || targets+=(conformance_programs)
    [[ $steps != *costs* && $steps != *throughput* ]] || targets+=(gpu_costs)
    [[ $steps != *throughput* ]] || targets+=(bench_kernels)
    [[ $steps != *differential* ]] || targets+=(loop arena lanes nasty fuzz)
    [[ $steps != *sanitizer* && $steps != *kernels* ]] || targets+=("${kernel_tests[@]}")
    echo "${targets[@]}"
}

# gpu_flags <architectures>: of cmake. The software device's kernel libraries, which take longest, are of no use on a GPU.
gpu_flags() {
    echo "-DCUDAToolkit_ROOT=${CUDA_HOME:-/usr/local/cuda}" "-DEBB_CUDA_ARCHITECTURES=$1" -DEBB_CPU=x86-64-v3 -DSOFTGPU_KERNELS=OFF
}

# gpu_build <build folder> <architectures> <steps> [seconds]: what the steps need, and of that all that can be built; not 0 if that is
# not all of it, 124 if it was not done in time. What is there afterwards is of these sources. The log is <build folder>.log.
gpu_build() {
    local folder=$1 architectures=$2 steps=$3 limit=${4:-100000} began=$SECONDS status
    local -a targets flags
    read -ra targets < <(gpu_targets "$steps")
    read -ra flags < <(gpu_flags "$architectures")
    local -a generator=() on=(-k)
    ! command -v ninja >/dev/null || generator=(-G Ninja)
    # A folder that is there already has its generator.
    if [[ -e $folder/build.ninja || ! -e $folder/Makefile && ${#generator[@]} -gt 0 ]]; then on=(-k 0); else generator=(); fi
    mkdir -p "$folder"
    touch "$folder/begun"
    # shellcheck disable=SC2154 # root is the caller's
    { within "$limit" cmake -S "$root" -B "$folder" "${generator[@]}" "${flags[@]}" &&
        within $((limit > SECONDS - began ? limit - SECONDS + began : 1)) \
            cmake --build "$folder" --parallel "$(nproc)" --target "${targets[@]}" -- "${on[@]}"; } >"$folder.log" 2>&1
    status=$?
    ((status == 0)) && sources_now >"$folder/sources" || drop_older "$folder"
    return $status
}

# gpu_build_failed <build folder>: what to tell.
gpu_build_failed() {
    echo "the build failed; $1.log ends so:"
    grep -E 'rror|FAILED|ould not|install ' "$1.log" | tail -n 20
    echo 'the build needs cmake, gcc, g++, pkg-config, the CUDA Toolkit 13 and (Debian) libcjson-dev libcmocka-dev libjemalloc-dev'
    echo 'libhwloc-dev libopenblas-serial-dev; a machine without can run what another has built: tests/gpu/kit.sh --help'
}

# missing_libraries <build folder>: names that its programs need and the loader does not find, or finds in the software device; but the
# driver's.
missing_libraries() {
    find "$1/bin" "$1/conformance" -maxdepth 1 -type f -executable ! -name '*.so' -exec ldd {} + 2>/dev/null |
        awk -v soft="$1/softgpu/" '/=> not found/ || index($3, soft) == 1 { print $1 }' | grep -v '^libcuda\.so' | sort -u
}

# find_libraries <build folder> <python>: links to those in <build folder>/found, and of CUDA's in found/cuda: folders for
# LD_LIBRARY_PATH, the second not for programs that bring their own (PyTorch). They are looked for in the toolkit, beside the Python's
# packages (NVIDIA's wheels, as PyTorch brings them), in the kit, and where pkg-config knows them. Returns 1, and names what there is
# nowhere.
find_libraries() {
    local folder=$1 cuda=${CUDA_HOME:-/usr/local/cuda} name place to package failed=0
    local -a places=("$cuda/lib64" "$cuda/lib" "$cuda/targets/x86_64-linux/lib")
    mapfile -t -O 3 places < <("$2" -c 'import glob, sys; print(*[f for p in sys.path for f in glob.glob(p + "/nvidia/*/lib")], sep="\n")')
    places+=("$folder/lib/more")
    for package in libcjson cmocka; do
        places+=("$(pkg-config --variable=libdir "$package" 2>/dev/null)")
    done
    rm -rf "$folder/found"
    while read -r name; do
        for place in "${places[@]}"; do
            [[ -n $place && -e $place/$name ]] || continue
            to=$folder/found
            [[ $name != libcu* ]] || to+=/cuda
            mkdir -p "$to"
            ln -s "$place/$name" "$to/$name"
            continue 2
        done
        echo "no $name: not where the loader looks, nor in $cuda, the Python's packages, or a kit"
        failed=1
    done < <(missing_libraries "$folder")
    return $failed
}
